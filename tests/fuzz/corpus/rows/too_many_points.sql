UPDATE games SET black_score = 176 WHERE rowid = 2;
