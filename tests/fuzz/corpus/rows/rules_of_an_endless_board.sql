UPDATE games SET rules = json_set(rules, '$.size', json('1e999')) WHERE rowid = 1;
