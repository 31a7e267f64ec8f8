UPDATE events SET settings = json_set(settings, '$.rules', json('{}')) WHERE rowid = 2;
