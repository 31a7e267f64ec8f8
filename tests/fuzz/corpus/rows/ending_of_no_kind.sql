UPDATE games SET ending = 'x', moves = x'ff' WHERE rowid = 1;
