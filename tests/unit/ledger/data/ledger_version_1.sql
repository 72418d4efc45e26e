PRAGMA application_id = 1685091185;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
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
INSERT INTO "entry" VALUES(1,'2026-11-22T08:02:22+00:00','analyst','SELECT 1','Scalar','m','1/1','0/1','1/1','0/1','settled',1,0,'elsewhere|1|1');
INSERT INTO "entry" VALUES(2,'2026-11-22T08:02:22+00:00','analyst','SELECT 1','Scalar','m','1/1','0/1','1/1','0/1','failed',NULL,0,'elsewhere|1|1');
INSERT INTO "entry" VALUES(3,'2026-11-22T08:02:22+00:00','ann','SELECT 1','Scalar','m','1/1','0/1','1/1','0/1','cancelled',NULL,0,'elsewhere|1|1');
INSERT INTO "entry" VALUES(4,'2026-11-22T08:02:22+00:00','analyst','SELECT 1','Scalar','m','1/1','0/1','1/2','0/1','settled',2,0,'elsewhere|1|1');
CREATE TABLE failure (analyst TEXT PRIMARY KEY, n INTEGER NOT NULL CHECK (n >= 0)) WITHOUT ROWID;
INSERT INTO "failure" VALUES('analyst',1);
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO "meta" VALUES('policy','dpsql.toml');
CREATE TABLE release (
    number INTEGER PRIMARY KEY,
    entry INTEGER NOT NULL UNIQUE REFERENCES entry (entry),
    at TEXT NOT NULL,
    analyst TEXT NOT NULL,
    reuse_key TEXT,
    payload BLOB
);
INSERT INTO "release" VALUES(1,1,'2026-11-22T08:02:22+00:00','analyst','k',X'726F7773');
INSERT INTO "release" VALUES(2,4,'2026-11-22T08:02:22+00:00','analyst',NULL,NULL);
CREATE TABLE running (
    analyst TEXT NOT NULL, holder TEXT NOT NULL, n INTEGER NOT NULL CHECK (n > 0),
    PRIMARY KEY (analyst, holder)
) WITHOUT ROWID;
CREATE TABLE scope (name TEXT PRIMARY KEY, epsilon TEXT NOT NULL, delta TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO "scope" VALUES('analyst analyst','5/2','0/1');
INSERT INTO "scope" VALUES('analyst ann','1/1','0/1');
INSERT INTO "scope" VALUES('policy','7/2','0/1');
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
COMMIT;
