UPDATE games SET setup = '[]' WHERE rowid = 3;
