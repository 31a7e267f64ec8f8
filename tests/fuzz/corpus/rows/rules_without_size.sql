UPDATE games SET rules = '{}' WHERE rowid = 1;
