PRAGMA application_id = 1685091185;
PRAGMA user_version = 5;
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
    reserved_loss TEXT NOT NULL,
    charged_loss TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('reserved', 'settled', 'failed', 'cancelled')),
    release INTEGER REFERENCES release (number),
    shared INTEGER NOT NULL CHECK (shared IN (0, 1)),
    holder TEXT NOT NULL,
    CHECK ((state = 'settled') = (release IS NOT NULL)),
    CHECK (state = 'settled' OR charged_loss = reserved_loss)
);
INSERT INTO "entry" VALUES(1,'2026-11-28T13:00:00+00:00','ann','SELECT ''it''''s''','top-k','noisy top-k','pure 1 + delta 1/10000','sum 1/3 of 1 + delta 1/10000','settled',1,0,'elsewhere|1|1');
INSERT INTO "entry" VALUES(2,'2026-11-28T13:00:00+00:00','ann','SELECT ''it''''s''','top-k','noisy top-k','pure 1/2','pure 1/2','failed',NULL,0,'elsewhere|1|1');
INSERT INTO "entry" VALUES(3,'2026-11-28T13:00:00+00:00','bob','SELECT ''it''''s''','top-k','noisy top-k','pure 1/4','pure 1/4','cancelled',NULL,0,'elsewhere|1|1');
INSERT INTO "entry" VALUES(4,'2026-11-28T13:00:00+00:00','bob','stream','s','m','pure 1','stream 1/5 of 1','settled',2,0,'elsewhere|1|1');
INSERT INTO "entry" VALUES(5,'2026-11-28T13:00:00+00:00','bob','two','r','m','pure 1/7','pure 1/7','settled',3,0,'elsewhere|1|1');
INSERT INTO "entry" VALUES(6,'2026-11-28T13:00:00+00:00','bob','two','r','m','pure 1/7','pure 1/7','settled',4,0,'elsewhere|1|1');
INSERT INTO "entry" VALUES(7,'2026-11-28T13:00:01+00:00','ann','SELECT ''it''''s''','top-k','noisy top-k','pure 1/10','pure 1/10','settled',5,0,'elsewhere|1|1');
INSERT INTO "entry" VALUES(8,'2026-11-28T13:00:01+00:00','ann','SELECT ''it''''s''','top-k','noisy top-k','stream 3/10 of 1/2','stream 3/10 of 1/2','settled',6,0,'elsewhere|1|1');
INSERT INTO "entry" VALUES(9,'2026-11-28T13:00:01+00:00','cem','SELECT ''it''''s''','top-k','noisy top-k','pure 1/10','pure 1/10','settled',7,1,'elsewhere|1|1');
INSERT INTO "entry" VALUES(10,'2026-11-28T13:00:01+00:00','ann','gauss','r','gauss','gauss 1/200','gauss 1/200','settled',8,0,'elsewhere|1|1');
INSERT INTO "entry" VALUES(11,'2026-11-28T13:00:01+00:00','ann','SELECT ''it''''s''','top-k','noisy top-k','pure 1/2','pure 1/2','reserved',NULL,0,'elsewhere|1|1');
INSERT INTO "entry" VALUES(12,'2026-11-28T13:00:01+00:00','bob','SELECT ''it''''s''','top-k','noisy top-k','pure 1/9','pure 1/9','reserved',NULL,0,'elsewhere|1|1');
CREATE TABLE event (
    n INTEGER PRIMARY KEY CHECK (n > 0), record TEXT NOT NULL, hash TEXT NOT NULL CHECK (length(hash) = 64)
);
INSERT INTO "event" VALUES(1,'{"event":"new","ledger":"807661f0eb69e76db28fb5a2943be90b","policy":"p","totals":{"policy":["0/1","0/1",null,null]},"version":5}','6adf7c192d892299136345cf983f01894f56208d6f2afd8e4faae10bfafeb770');
INSERT INTO "event" VALUES(2,'{"at":"2026-11-28T13:00:00+00:00","caps":{"alpha":"85/32","analysts":{"*":["5/1","0/1"],"ann":["6/1","1/1000"]},"conversion_delta":"1/2000","groups":{"team":["ann","bob","8/1","1/1000"]},"limits":[9,90,20,200],"per_query":null,"total":["10/1","1/1000"]},"event":"policy","totals":{"group [\"team\", \"ann\"]":["0/1","0/1","0/1","189/64"],"group [\"team\", \"bob\"]":["0/1","0/1","0/1","189/64"],"policy":["0/1","0/1","0/1","85/32"]}}','06d227cdcf33a170587093c893c2649f4c4f43baec00f5e9ee588cd7d577f08f');
INSERT INTO "event" VALUES(3,'{"event":"mark","holder":"e129e27d9a6d0087fcdd0bc8d84190f5","totals":{"group [\"team\", \"ann\"]":["0/1","0/1","0/1","189/64"],"group [\"team\", \"bob\"]":["0/1","0/1","0/1","189/64"],"policy":["0/1","0/1","0/1","85/32"]}}','841bd570cecd9b146dd89e660f92726188abedb5f7920e0b4476d65df34e5485');
INSERT INTO "event" VALUES(4,'{"entries":[{"analyst":"ann","at":"2026-11-28T13:00:00+00:00","entry":1,"holder":"elsewhere|1|1","mechanism":"noisy top-k","reading":"top-k","reserved_loss":"pure 1 + delta 1/10000","shared":0,"statement":"SELECT ''it''''s''"}],"event":"reserve","totals":{"analyst ann":["1/1","1/10000","871848083159/1000000000000","219/64"],"group [\"team\", \"ann\"]":["1/1","1/10000","421692480641/500000000000","189/64"],"policy":["1/1","1/10000","409448855579/500000000000","85/32"]}}','63700300934709f1442d4aa372add484ba33095dfef4640e305ed5f4b88a1cfd');
INSERT INTO "event" VALUES(5,'{"event":"settle","releases":[{"charged_loss":"sum 1/3 of 1 + delta 1/10000","entry":1,"payload":"bc51e9e65d79e1c90ba544ab2eae1044ccdf8c1af7a559ba375cba4276f7d99e","release":1,"reuse_key":"k"}],"totals":{"analyst ann":["1/3","1/10000","1/3","219/64"],"group [\"team\", \"ann\"]":["1/3","1/10000","1/3","189/64"],"policy":["1/3","1/10000","1/3","85/32"]}}','e4a7950c6b9b69db8ca8c7e2a97f7123c3661152d35400ca00b3e716b4e555d2');
INSERT INTO "event" VALUES(6,'{"entries":[{"analyst":"ann","at":"2026-11-28T13:00:00+00:00","entry":2,"holder":"elsewhere|1|1","mechanism":"noisy top-k","reading":"top-k","reserved_loss":"pure 1/2","shared":0,"statement":"SELECT ''it''''s''"}],"event":"reserve","totals":{"analyst ann":["5/6","1/10000","395541268637/600000000000","219/64"],"group [\"team\", \"ann\"]":["5/6","1/10000","949287026867/1500000000000","189/64"],"policy":["5/6","1/10000","919848184877/1500000000000","85/32"]}}','cc3b40f5f08c70da5fa446573676b73b069296c1365e1f83de54413759d6252d');
INSERT INTO "event" VALUES(7,'{"entries":[2],"event":"fail","totals":{"analyst ann":["5/6","1/10000","395541268637/600000000000","219/64"],"group [\"team\", \"ann\"]":["5/6","1/10000","949287026867/1500000000000","189/64"],"policy":["5/6","1/10000","919848184877/1500000000000","85/32"]}}','7b845f4e0eab2b0214ab0d8fb3d8d7a75545a45b2937a3adc36216eab8daaf29');
INSERT INTO "event" VALUES(8,'{"entries":[{"analyst":"bob","at":"2026-11-28T13:00:00+00:00","entry":3,"holder":"elsewhere|1|1","mechanism":"noisy top-k","reading":"top-k","reserved_loss":"pure 1/4","shared":0,"statement":"SELECT ''it''''s''"}],"event":"reserve","totals":{"analyst bob":["1/4","0/1",null,null],"group [\"team\", \"bob\"]":["1/4","0/1","694428453/8000000000","189/64"],"policy":["13/12","1/10000","2076918634243/3000000000000","85/32"]}}','eef29d496ce381685e8f2140e73f6b15bf9fae11ea35454924b6f6869cfffd21');
INSERT INTO "event" VALUES(9,'{"entries":[3],"event":"cancel","totals":{"analyst bob":["1/4","0/1",null,null],"group [\"team\", \"bob\"]":["1/4","0/1","694428453/8000000000","189/64"],"policy":["13/12","1/10000","2076918634243/3000000000000","85/32"]}}','b78407c2b6ec510eea25a23147922c829a6dc08ff126b2f5dbbd60229b26611c');
INSERT INTO "event" VALUES(10,'{"entries":[{"analyst":"bob","at":"2026-11-28T13:00:00+00:00","entry":4,"holder":"elsewhere|1|1","mechanism":"m","reading":"s","reserved_loss":"pure 1","shared":0,"statement":"stream"}],"event":"reserve","totals":{"analyst bob":["5/4","0/1",null,null],"group [\"team\", \"bob\"]":["5/4","0/1","930188517907/1000000000000","189/64"],"policy":["25/12","1/10000","4533611767717/3000000000000","85/32"]}}','561376f533b84e02da917e9fd6870b1a436229211f2209e75da4fdc58338dd42');
INSERT INTO "event" VALUES(11,'{"event":"settle","releases":[{"charged_loss":"stream 1/5 of 1","entry":4,"payload":null,"release":2,"reuse_key":null}],"totals":{"analyst bob":["9/20","0/1",null,null],"group [\"team\", \"bob\"]":["9/20","0/1","930188517907/1000000000000","189/64"],"policy":["77/60","1/10000","4533611767717/3000000000000","85/32"]}}','2161cf961921447f50b5810665f7395174886c8c1b9979023317a070a89b18a2');
INSERT INTO "event" VALUES(12,'{"entries":[{"analyst":"bob","at":"2026-11-28T13:00:00+00:00","entry":5,"holder":"elsewhere|1|1","mechanism":"m","part":[5,1,2],"reading":"r","reserved_loss":"pure 1/7","shared":0,"statement":"two"},{"analyst":"bob","at":"2026-11-28T13:00:00+00:00","entry":6,"holder":"elsewhere|1|1","mechanism":"m","part":[5,2,2],"reading":"r","reserved_loss":"pure 1/7","shared":0,"statement":"two"}],"event":"reserve","totals":{"analyst bob":["103/140","0/1",null,null],"group [\"team\", \"bob\"]":["103/140","0/1","989212154617/1000000000000","189/64"],"policy":["659/420","1/10000","4693596024259/3000000000000","85/32"]}}','f2d902ec1b86b388848a518ae39e9d75fc6efa21d857e82d87a9188a66eaf95a');
INSERT INTO "event" VALUES(13,'{"event":"settle","releases":[{"charged_loss":"pure 1/7","entry":5,"payload":"7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed","release":3,"reuse_key":"a"},{"charged_loss":"pure 1/7","entry":6,"payload":"3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3","release":4,"reuse_key":"b"}],"totals":{"analyst bob":["103/140","0/1",null,null],"group [\"team\", \"bob\"]":["103/140","0/1","989212154617/1000000000000","189/64"],"policy":["659/420","1/10000","4693596024259/3000000000000","85/32"]}}','9c41a594e809f25a68825627001d8c248e0346cf9c84a0b7b6026a133c7d5c4a');
INSERT INTO "event" VALUES(14,'{"entries":[{"analyst":"ann","at":"2026-11-28T13:00:01+00:00","entry":7,"holder":"elsewhere|1|1","mechanism":"noisy top-k","reading":"top-k","reserved_loss":"pure 1/10","shared":0,"statement":"SELECT ''it''''s''"}],"event":"reserve","totals":{"analyst ann":["14/15","1/10000","1014149716967/1500000000000","219/64"],"group [\"team\", \"ann\"]":["14/15","1/10000","971207746019/1500000000000","189/64"],"policy":["701/420","1/10000","2366559205607/1500000000000","85/32"]}}','f1e248cc765b7868b950f33dccc74aab62018fda85868841ed42cb28d37c5caf');
INSERT INTO "event" VALUES(15,'{"event":"settle","releases":[{"charged_loss":"pure 1/10","entry":7,"payload":"152397e39cbd1ca8d0be17ba26d2077b69a195c7d9c15e782470690d811e0dc1","release":5,"reuse_key":"c"}],"totals":{"analyst ann":["14/15","1/10000","1014149716967/1500000000000","219/64"],"group [\"team\", \"ann\"]":["14/15","1/10000","971207746019/1500000000000","189/64"],"policy":["701/420","1/10000","2366559205607/1500000000000","85/32"]}}','f48a57f1a390929d5ab93e5ed8b2ac4ae51c71d149e84df70942001555ffdc31');
INSERT INTO "event" VALUES(16,'{"entries":[{"analyst":"ann","at":"2026-11-28T13:00:01+00:00","entry":8,"holder":"elsewhere|1|1","mechanism":"noisy top-k","reading":"top-k","refinement":[5,"3/10"],"reserved_loss":"stream 3/10 of 1/2","shared":0,"statement":"SELECT ''it''''s''"}],"event":"reserve","totals":{"analyst ann":["37/30","1/10000","3006005777119/3000000000000","219/64"],"group [\"team\", \"ann\"]":["37/30","1/10000","710247386443/750000000000","189/64"],"policy":["827/420","1/10000","696601847621/375000000000","85/32"]}}','bd601d7c6996e873f78c9fa44e4fd633ebed7060dd8db6770c110666392142e5');
INSERT INTO "event" VALUES(17,'{"event":"settle","releases":[{"charged_loss":"stream 3/10 of 1/2","entry":8,"payload":"384ede47ade86629b0752c0fe8d39362b89f1f62952a8dcde435a4a14b183348","release":6,"reuse_key":null}],"totals":{"analyst ann":["37/30","1/10000","3006005777119/3000000000000","219/64"],"group [\"team\", \"ann\"]":["37/30","1/10000","710247386443/750000000000","189/64"],"policy":["827/420","1/10000","696601847621/375000000000","85/32"]}}','53d0cc625670508c816dcf572d4233dd860771aa5957dc53eacc6f6efa4f22c1');
INSERT INTO "event" VALUES(18,'{"entries":[{"analyst":"cem","at":"2026-11-28T13:00:01+00:00","entry":9,"holder":"elsewhere|1|1","mechanism":"noisy top-k","reading":"top-k","reserved_loss":"pure 1/10","shared":1,"statement":"SELECT ''it''''s''"}],"event":"share","releases":[{"charged_loss":"pure 1/10","entry":9,"payload":"152397e39cbd1ca8d0be17ba26d2077b69a195c7d9c15e782470690d811e0dc1","release":7,"reuse_key":"c"}],"totals":{"analyst cem":["1/10","0/1",null,null],"policy":["827/420","1/10000","696601847621/375000000000","85/32"]}}','05579b7d68424e1c16402142092837a4a31520985e4a69759254d3b4f509302c');
INSERT INTO "event" VALUES(19,'{"entries":[{"analyst":"ann","at":"2026-11-28T13:00:01+00:00","entry":10,"holder":"elsewhere|1|1","mechanism":"gauss","reading":"r","reserved_loss":"gauss 1/200","shared":0,"statement":"gauss"}],"event":"reserve","totals":{"analyst ann":[null,"1/10000","3057333902119/3000000000000","219/64"],"group [\"team\", \"ann\"]":[null,"1/10000","721321605193/750000000000","189/64"],"policy":[null,"1/10000","701582316371/375000000000","85/32"]}}','325371c4995a2653bd76d99763f1f1898a3182c6e600c21e0788daf8009e61bb');
INSERT INTO "event" VALUES(20,'{"event":"settle","releases":[{"charged_loss":"gauss 1/200","entry":10,"payload":"cd0aa9856147b6c5b4ff2b7dfee5da20aa38253099ef1b4a64aced233c9afe29","release":8,"reuse_key":"g"}],"totals":{"analyst ann":[null,"1/10000","3057333902119/3000000000000","219/64"],"group [\"team\", \"ann\"]":[null,"1/10000","721321605193/750000000000","189/64"],"policy":[null,"1/10000","701582316371/375000000000","85/32"]}}','8fa8647e0a25526016112cc14db886aff86bbe193e54bd4746c9c291c7f7eb82');
INSERT INTO "event" VALUES(21,'{"added":{"analyst bob":["1/11","0/1",null,null,"1273/1540"],"policy":[null,"0/1","85179053/7812500000","85/32",null]},"ended":[],"event":"restored","mark":{"hash":"50bce21ffda2bc4c899b8456a4b0553dbaa39844633009f007edfaeba3e05289","ledger":"807661f0eb69e76db28fb5a2943be90b","n":22},"totals":{"analyst ann":[null,"1/10000","3057333902119/3000000000000","219/64"],"analyst bob":["1273/1540","0/1",null,null],"analyst cem":["1/10","0/1",null,null],"policy":[null,"1/10000","141134182183/75000000000","85/32"]}}','ed5bec4c5e2e593643a6e33787e25c2626c051f88f9fa83185773e0796865725');
INSERT INTO "event" VALUES(22,'{"entries":[{"analyst":"ann","at":"2026-11-28T13:00:01+00:00","entry":11,"holder":"elsewhere|1|1","mechanism":"noisy top-k","reading":"top-k","reserved_loss":"pure 1/2","shared":0,"statement":"SELECT ''it''''s''"}],"event":"reserve","totals":{"analyst ann":[null,"1/10000","504380030663/375000000000","219/64"],"group [\"team\", \"ann\"]":[null,"1/10000","1891930237253/1500000000000","189/64"],"policy":[null,"1/10000","3242531828537/1500000000000","85/32"]}}','9db93ab445df125f2eb94bd3d782cc6b0e77d13f2349fa43e1bd3b140785820e');
INSERT INTO "event" VALUES(23,'{"entries":[{"analyst":"bob","at":"2026-11-28T13:00:01+00:00","entry":12,"holder":"elsewhere|1|1","mechanism":"noisy top-k","reading":"top-k","reserved_loss":"pure 1/9","shared":0,"statement":"SELECT ''it''''s''"}],"event":"reserve","totals":{"analyst bob":["12997/13860","0/1",null,null],"group [\"team\", \"bob\"]":["12997/13860","0/1","141205230588297/77000000000000","189/64"],"policy":[null,"1/10000","653376506551/300000000000","85/32"]}}','2ea46e413fd8e711f8812b24c10b2d742cc4dea2b3800d69cc340e6d046b943d');
CREATE TABLE failed (analyst TEXT PRIMARY KEY, n INTEGER NOT NULL CHECK (n >= 0)) WITHOUT ROWID;
INSERT INTO "failed" VALUES('ann',1);
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
INSERT INTO "progress" VALUES(4,1,'1/5','0/1');
CREATE TABLE refinement (
    entry INTEGER PRIMARY KEY REFERENCES entry (entry),
    parent INTEGER NOT NULL UNIQUE REFERENCES release (number),
    epsilon TEXT NOT NULL
) WITHOUT ROWID;
INSERT INTO "refinement" VALUES(8,5,'3/10');
CREATE TABLE release (
    number INTEGER PRIMARY KEY,
    entry INTEGER NOT NULL UNIQUE REFERENCES entry (entry),
    at TEXT NOT NULL,
    analyst TEXT NOT NULL,
    reuse_key TEXT,
    payload BLOB
, event INTEGER);
INSERT INTO "release" VALUES(1,1,'2026-11-28T13:00:00+00:00','ann','k',X'726F7773',5);
INSERT INTO "release" VALUES(2,4,'2026-11-28T13:00:00+00:00','bob',NULL,NULL,11);
INSERT INTO "release" VALUES(3,5,'2026-11-28T13:00:00+00:00','bob','a',X'6F6E65',13);
INSERT INTO "release" VALUES(4,6,'2026-11-28T13:00:00+00:00','bob','b',X'74776F',13);
INSERT INTO "release" VALUES(5,7,'2026-11-28T13:00:01+00:00','ann','c',X'636F61727365',15);
INSERT INTO "release" VALUES(6,8,'2026-11-28T13:00:01+00:00','ann',NULL,X'66696E6572',17);
INSERT INTO "release" VALUES(7,9,'2026-11-28T13:00:01+00:00','cem','c',X'636F61727365',18);
INSERT INTO "release" VALUES(8,10,'2026-11-28T13:00:01+00:00','ann','g',X'67',20);
CREATE TABLE restored (
    event INTEGER NOT NULL REFERENCES event (n) DEFERRABLE INITIALLY DEFERRED, scope TEXT NOT NULL,
    epsilon TEXT, delta TEXT NOT NULL, cost TEXT, alpha TEXT,
    most TEXT, -- what it costs at most, at any order
    PRIMARY KEY (event, scope)
) WITHOUT ROWID;
INSERT INTO "restored" VALUES(21,'analyst bob','1/11','0/1',NULL,NULL,'1273/1540');
INSERT INTO "restored" VALUES(21,'policy',NULL,'0/1','85179053/7812500000','85/32',NULL);
CREATE TABLE running (
    analyst TEXT NOT NULL, holder TEXT NOT NULL, n INTEGER NOT NULL CHECK (n > 0),
    PRIMARY KEY (analyst, holder)
) WITHOUT ROWID;
INSERT INTO "running" VALUES('ann','elsewhere|1|1',1);
INSERT INTO "running" VALUES('bob','elsewhere|1|1',1);
CREATE TABLE scope (
    name TEXT PRIMARY KEY, epsilon TEXT, delta TEXT NOT NULL, cost TEXT, alpha TEXT
) WITHOUT ROWID;
INSERT INTO "scope" VALUES('analyst ann',NULL,'1/10000','504380030663/375000000000','219/64');
INSERT INTO "scope" VALUES('analyst bob','12997/13860','0/1',NULL,NULL);
INSERT INTO "scope" VALUES('analyst cem','1/10','0/1',NULL,NULL);
INSERT INTO "scope" VALUES('group ["team", "ann"]',NULL,'1/10000','1891930237253/1500000000000','189/64');
INSERT INTO "scope" VALUES('group ["team", "bob"]','12997/13860','0/1','141205230588297/77000000000000','189/64');
INSERT INTO "scope" VALUES('policy',NULL,'1/10000','653376506551/300000000000','85/32');
CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO "setting" VALUES('caps','{"alpha":"85/32","analysts":{"*":["5/1","0/1"],"ann":["6/1","1/1000"]},"conversion_delta":"1/2000","groups":{"team":["ann","bob","8/1","1/1000"]},"limits":[9,90,20,200],"per_query":null,"total":["10/1","1/1000"]}');
INSERT INTO "setting" VALUES('ledger','807661f0eb69e76db28fb5a2943be90b');
INSERT INTO "setting" VALUES('mark','{"begun":[[3,"841bd570cecd9b146dd89e660f92726188abedb5f7920e0b4476d65df34e5485"],[21,"ed5bec4c5e2e593643a6e33787e25c2626c051f88f9fa83185773e0796865725"]],"holder":"a9ed19ab17007c4b7eb7f8836b12079d"}');
INSERT INTO "setting" VALUES('policy','p');
INSERT INTO "setting" VALUES('vetted visits','v1');
CREATE TRIGGER event_stays BEFORE DELETE ON event
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER event_is_final BEFORE UPDATE ON event
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER event_follows BEFORE INSERT ON event
WHEN NEW.n IS NOT (SELECT COALESCE(max(n), 0) + 1 FROM event)
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE INDEX release_analyst ON release (analyst, reuse_key, number);
CREATE INDEX release_key ON release (reuse_key, number) WHERE reuse_key IS NOT NULL;
CREATE TRIGGER release_stays BEFORE DELETE ON release
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER release_is_final BEFORE UPDATE ON release
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER restored_stays BEFORE DELETE ON restored
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER restored_is_final BEFORE UPDATE ON restored
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER progress_stays BEFORE DELETE ON progress
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER progress_is_final BEFORE UPDATE ON progress
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER refinement_stays BEFORE DELETE ON refinement
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER refinement_is_final BEFORE UPDATE ON refinement
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER part_stays BEFORE DELETE ON part
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER part_is_final BEFORE UPDATE ON part
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER entry_stays BEFORE DELETE ON entry
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER entry_ends_once BEFORE UPDATE ON entry
WHEN OLD.state <> 'reserved' OR NEW.state = 'reserved' OR NEW.entry IS NOT OLD.entry OR NEW.at IS NOT OLD.at
    OR NEW.analyst IS NOT OLD.analyst OR NEW.statement IS NOT OLD.statement
    OR NEW.reading IS NOT OLD.reading OR NEW.mechanism IS NOT OLD.mechanism
    OR NEW.reserved_loss IS NOT OLD.reserved_loss
    OR NEW.shared IS NOT OLD.shared OR NEW.holder IS NOT OLD.holder
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER progress_while_it_runs BEFORE INSERT ON progress
WHEN (SELECT state FROM entry WHERE entry = NEW.entry) IS NOT 'reserved'
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
COMMIT;
