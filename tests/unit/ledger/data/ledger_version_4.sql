PRAGMA application_id = 1685091185;
PRAGMA user_version = 4;
BEGIN TRANSACTION;
CREATE TABLE cancelled (analyst TEXT PRIMARY KEY, n INTEGER NOT NULL CHECK (n >= 0)) WITHOUT ROWID;
INSERT INTO "cancelled" VALUES('bob',1);
CREATE TABLE entry (
    entry INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    analyst TEXT NOT NULL,
    statement TEXT NOT NULL,
    reading TEXT NOT NULL,
    mechanism TEXT NOT NULL,
    reserved_epsilon TEXT NOT NULL,
    reserved_delta TEXT NOT NULL,
    charged_epsilon TEXT NOT NULL,
    charged_delta TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('reserved', 'settled', 'failed', 'cancelled')),
    release INTEGER REFERENCES release (number),
    shared INTEGER NOT NULL CHECK (shared IN (0, 1)),
    holder TEXT NOT NULL,
    CHECK ((state = 'settled') = (release IS NOT NULL)),
    CHECK (state = 'settled' OR (charged_epsilon = reserved_epsilon AND charged_delta = reserved_delta))
);
INSERT INTO "entry" VALUES(1,'2026-11-23T09:29:21+00:00','ann','SELECT ''it''''s''','TopK','noisy top-k','1/1','1/10000','1/3','1/10000','settled',1,0,'elsewhere|1|1');
INSERT INTO "entry" VALUES(2,'2026-11-23T09:29:21+00:00','ann','SELECT ''it''''s''','TopK','noisy top-k','1/2','0/1','1/2','0/1','failed',NULL,0,'elsewhere|1|1');
INSERT INTO "entry" VALUES(3,'2026-11-23T09:29:21+00:00','bob','SELECT ''it''''s''','TopK','noisy top-k','1/4','0/1','1/4','0/1','cancelled',NULL,0,'elsewhere|1|1');
INSERT INTO "entry" VALUES(4,'2026-11-23T09:29:21+00:00','bob','SELECT ''it''''s''','TopK','noisy top-k','1/3','1/10000','1/3','1/10000','settled',2,1,'elsewhere|1|1');
INSERT INTO "entry" VALUES(5,'2026-11-23T09:29:21+00:00','ann','two','r','m','1/5','0/1','1/5','0/1','settled',3,0,'elsewhere|1|1');
INSERT INTO "entry" VALUES(6,'2026-11-23T09:29:21+00:00','ann','two','r','m','1/5','0/1','1/10','0/1','settled',4,0,'elsewhere|1|1');
INSERT INTO "entry" VALUES(7,'2026-11-23T09:29:21+00:00','ann','SELECT ''it''''s''','TopK','noisy top-k','1/1','0/1','1/1','0/1','settled',5,0,'elsewhere|1|1');
INSERT INTO "entry" VALUES(8,'2026-11-23T09:29:21+00:00','ann','checked','TopK','noisy top-k','1/2','0/1','1/4','0/1','settled',6,0,'elsewhere|1|1');
INSERT INTO "entry" VALUES(9,'2026-11-23T09:29:21+00:00','bob','SELECT ''it''''s''','TopK','noisy top-k','1/2','0/1','1/2','0/1','reserved',NULL,0,'elsewhere|1|1');
INSERT INTO "entry" VALUES(10,'2026-11-23T09:29:21+00:00','cem','SELECT ''it''''s''','TopK','noisy top-k','1/7','0/1','1/7','0/1','reserved',NULL,0,'elsewhere|1|1');
CREATE TABLE failure (analyst TEXT PRIMARY KEY, n INTEGER NOT NULL CHECK (n >= 0)) WITHOUT ROWID;
INSERT INTO "failure" VALUES('ann',1);
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO "meta" VALUES('policy','p');
INSERT INTO "meta" VALUES('vetted visits','v1');
CREATE TABLE part (
    entry INTEGER PRIMARY KEY REFERENCES entry (entry),
    first INTEGER NOT NULL REFERENCES entry (entry),
    place INTEGER NOT NULL CHECK (place > 0),
    places INTEGER NOT NULL CHECK (places >= place),
    UNIQUE (first, place)
) WITHOUT ROWID;
INSERT INTO "part" VALUES(5,5,1,2);
INSERT INTO "part" VALUES(6,5,2,2);
CREATE TABLE progress (
    entry INTEGER NOT NULL REFERENCES entry (entry), step INTEGER NOT NULL CHECK (step > 0),
    epsilon TEXT NOT NULL, delta TEXT NOT NULL,
    PRIMARY KEY (entry, step)
) WITHOUT ROWID;
INSERT INTO "progress" VALUES(8,1,'1/8','0/1');
INSERT INTO "progress" VALUES(8,2,'1/4','0/1');
INSERT INTO "progress" VALUES(9,1,'1/8','0/1');
CREATE TABLE refinement (
    entry INTEGER PRIMARY KEY REFERENCES entry (entry),
    parent INTEGER NOT NULL UNIQUE REFERENCES release (number),
    epsilon TEXT NOT NULL
) WITHOUT ROWID;
INSERT INTO "refinement" VALUES(7,1,'4/3');
CREATE TABLE release (
    number INTEGER PRIMARY KEY,
    entry INTEGER NOT NULL UNIQUE REFERENCES entry (entry),
    at TEXT NOT NULL,
    analyst TEXT NOT NULL,
    reuse_key TEXT,
    payload BLOB
);
INSERT INTO "release" VALUES(1,1,'2026-11-23T09:29:21+00:00','ann','k',X'726F7773');
INSERT INTO "release" VALUES(2,4,'2026-11-23T09:29:21+00:00','bob','k',X'726F7773');
INSERT INTO "release" VALUES(3,5,'2026-11-23T09:29:21+00:00','ann','a',X'61');
INSERT INTO "release" VALUES(4,6,'2026-11-23T09:29:21+00:00','ann',NULL,X'62');
INSERT INTO "release" VALUES(5,7,'2026-11-23T09:29:21+00:00','ann',NULL,X'66696E6572');
INSERT INTO "release" VALUES(6,8,'2026-11-23T09:29:21+00:00','ann',NULL,NULL);
CREATE TABLE running (
    analyst TEXT NOT NULL, holder TEXT NOT NULL, n INTEGER NOT NULL CHECK (n > 0),
    PRIMARY KEY (analyst, holder)
) WITHOUT ROWID;
INSERT INTO "running" VALUES('bob','elsewhere|1|1',1);
INSERT INTO "running" VALUES('cem','elsewhere|1|1',1);
CREATE TABLE scope (name TEXT PRIMARY KEY, epsilon TEXT NOT NULL, delta TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO "scope" VALUES('analyst ann','143/60','1/10000');
INSERT INTO "scope" VALUES('analyst bob','13/12','1/10000');
INSERT INTO "scope" VALUES('analyst cem','1/7','0/1');
INSERT INTO "scope" VALUES('policy','344/105','1/10000');
CREATE INDEX release_analyst ON release (analyst, reuse_key, number);
CREATE INDEX release_key ON release (reuse_key, number) WHERE reuse_key IS NOT NULL;
CREATE TRIGGER entry_stays BEFORE DELETE ON entry
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER entry_ends_once BEFORE UPDATE ON entry
WHEN OLD.state <> 'reserved' OR NEW.state = 'reserved' OR NEW.entry IS NOT OLD.entry OR NEW.at IS NOT OLD.at
    OR NEW.analyst IS NOT OLD.analyst OR NEW.statement IS NOT OLD.statement
    OR NEW.reading IS NOT OLD.reading OR NEW.mechanism IS NOT OLD.mechanism
    OR NEW.reserved_epsilon IS NOT OLD.reserved_epsilon OR NEW.reserved_delta IS NOT OLD.reserved_delta
    OR NEW.shared IS NOT OLD.shared OR NEW.holder IS NOT OLD.holder
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER release_stays BEFORE DELETE ON release
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER release_is_final BEFORE UPDATE ON release
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER progress_stays BEFORE DELETE ON progress
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER progress_is_final BEFORE UPDATE ON progress
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER progress_while_it_runs BEFORE INSERT ON progress
WHEN (SELECT state FROM entry WHERE entry = NEW.entry) IS NOT 'reserved'
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER refinement_stays BEFORE DELETE ON refinement
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER refinement_is_final BEFORE UPDATE ON refinement
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER part_stays BEFORE DELETE ON part
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER part_is_final BEFORE UPDATE ON part
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
COMMIT;
