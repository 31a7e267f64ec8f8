UPDATE events SET plan = json_set(plan, '$.gate.entry', json('false')) WHERE rowid = 1;
