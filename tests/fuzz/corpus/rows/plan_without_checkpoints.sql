UPDATE events SET plan = json_set(plan, '$.second.settings', json('[]')) WHERE rowid = 1;
