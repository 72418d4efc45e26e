PRAGMA application_id = 1685091185;
PRAGMA user_version = 8;
BEGIN TRANSACTION;
CREATE TABLE bounds (
    number INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    source TEXT NOT NULL,
    measure TEXT NOT NULL,
    version TEXT NOT NULL,
    statement TEXT NOT NULL,
    loss TEXT NOT NULL,
    holder TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('reserved', 'settled', 'failed', 'cancelled')),
    payload BLOB,
    event INTEGER,
    CHECK ((state = 'settled') = (payload IS NOT NULL)),
    CHECK ((state = 'settled') = (event IS NOT NULL))
);
INSERT INTO "bounds" VALUES(1,'2026-11-28T23:22:02+00:00','visits','rows','v1','dpsql bounds visits','pure 1/16','elsewhere|1|1','settled',X'62696E73',22);
INSERT INTO "bounds" VALUES(2,'2026-11-28T23:22:02+00:00','visits','pages','v1','dpsql bounds visits','pure 1/16','elsewhere|1|1','failed',NULL,NULL);
INSERT INTO "bounds" VALUES(3,'2026-11-28T23:22:02+00:00','visits','SUM(cost)','v1','dpsql bounds visits','pure 1/16','elsewhere|1|1','cancelled',NULL,NULL);
INSERT INTO "bounds" VALUES(4,'2026-11-28T23:22:02+00:00','visits','days','v1','dpsql bounds visits','pure 1/32','elsewhere|1|1','reserved',NULL,NULL);
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
INSERT INTO "entry" VALUES(1,'2026-11-28T23:22:02+00:00','ann','SELECT ''it''''s''','top-k','noisy top-k','pure 1 + delta 1/10000','sum 1/3 of 1 + delta 1/10000','settled',1,0,'elsewhere|1|1');
INSERT INTO "entry" VALUES(2,'2026-11-28T23:22:02+00:00','ann','SELECT ''it''''s''','top-k','noisy top-k','pure 1/2','pure 1/2','failed',NULL,0,'elsewhere|1|1');
INSERT INTO "entry" VALUES(3,'2026-11-28T23:22:02+00:00','bob','SELECT ''it''''s''','top-k','noisy top-k','pure 1/4','pure 1/4','cancelled',NULL,0,'elsewhere|1|1');
INSERT INTO "entry" VALUES(4,'2026-11-28T23:22:02+00:00','bob','stream','s','m','pure 1','stream 1/5 of 1','settled',2,0,'elsewhere|1|1');
INSERT INTO "entry" VALUES(5,'2026-11-28T23:22:02+00:00','bob','two','r','m','pure 1/7','pure 1/7','settled',3,0,'elsewhere|1|1');
INSERT INTO "entry" VALUES(6,'2026-11-28T23:22:02+00:00','bob','two','r','m','pure 1/7','pure 1/7','settled',4,0,'elsewhere|1|1');
INSERT INTO "entry" VALUES(7,'2026-11-28T23:22:02+00:00','ann','SELECT ''it''''s''','top-k','noisy top-k','pure 1/10','pure 1/10','settled',5,0,'elsewhere|1|1');
INSERT INTO "entry" VALUES(8,'2026-11-28T23:22:02+00:00','ann','SELECT ''it''''s''','top-k','noisy top-k','stream 1/5 of 2/5','stream 1/5 of 2/5','settled',6,0,'elsewhere|1|1');
INSERT INTO "entry" VALUES(9,'2026-11-28T23:22:02+00:00','cem','SELECT ''it''''s''','top-k','noisy top-k','pure 1/10','pure 1/10','settled',7,1,'elsewhere|1|1');
INSERT INTO "entry" VALUES(10,'2026-11-28T23:22:02+00:00','ann','gauss','r','gauss','gauss 1/200','gauss 1/200','settled',8,0,'elsewhere|1|1');
INSERT INTO "entry" VALUES(11,'2026-11-28T23:22:02+00:00','ann','SELECT ''it''''s''','top-k','noisy top-k','pure 1/2','pure 1/2','reserved',NULL,0,'elsewhere|1|1');
INSERT INTO "entry" VALUES(12,'2026-11-28T23:22:02+00:00','bob','SELECT ''it''''s''','top-k','noisy top-k','pure 1/9','pure 1/9','reserved',NULL,0,'elsewhere|1|1');
INSERT INTO "entry" VALUES(13,'2026-11-29T10:09:16+00:00','dee','SELECT seven','r','m','pure 1/8','sum 1/16 of 1/8','settled',9,0,'72271345-b9bf-4a64-b7ee-604025e52144/pid:[4026531836]|2280|1474916');
INSERT INTO "entry" VALUES(14,'2026-11-29T13:15:49+00:00','ann','SELECT 1','count','laplace','pure 1/8','pure 1/8','settled',10,0,'elsewhere|1|1');
INSERT INTO "entry" VALUES(15,'2026-11-29T13:15:49+00:00','ann','OPEN CHECKS daily OPTIONS (epsilon = 1, misses = 8)','checks daily','stream of checks','pure 1/4','pure 1/4','reserved',NULL,0,'elsewhere|1|1');
CREATE TABLE event (
    n INTEGER PRIMARY KEY CHECK (n > 0), record TEXT NOT NULL, hash TEXT NOT NULL CHECK (length(hash) = 64)
);
INSERT INTO "event" VALUES(1,'{"event":"new","ledger":"270f61ed729cc10cab946f2ad2d8d94f","policy":"p","totals":{"policy":["0/1","0/1",null,null]},"version":6}','3b847a7fefd015e38669ffeca6ebeab215faea21833c02b89cef4ea9bef355bf');
INSERT INTO "event" VALUES(2,'{"at":"2026-11-28T23:22:02+00:00","caps":{"alpha":"85/32","analysts":{"*":["5/1","0/1"],"ann":["6/1","1/1000"]},"conversion_delta":"1/2000","groups":{"team":["ann","bob","8/1","1/1000"]},"limits":[9,90,20,200],"per_query":null,"total":["10/1","1/1000"]},"event":"policy","totals":{"group [\"team\", \"ann\"]":["0/1","0/1","0/1","189/64"],"group [\"team\", \"bob\"]":["0/1","0/1","0/1","189/64"],"policy":["0/1","0/1","0/1","85/32"]}}','c1912fff2b70af1d9cc88ea7ae5f8a621c47dd759077d9d1fd9c7f852c756bbf');
INSERT INTO "event" VALUES(3,'{"event":"mark","holder":"e885e6dc212ebef37f368fa876c88a5e","totals":{"group [\"team\", \"ann\"]":["0/1","0/1","0/1","189/64"],"group [\"team\", \"bob\"]":["0/1","0/1","0/1","189/64"],"policy":["0/1","0/1","0/1","85/32"]}}','061844526949fbad73d10ba4b32a5d8ea9c4f56e9d611edeb5896a778b43b2d5');
INSERT INTO "event" VALUES(4,'{"entries":[{"analyst":"ann","at":"2026-11-28T23:22:02+00:00","entry":1,"holder":"elsewhere|1|1","mechanism":"noisy top-k","reading":"top-k","reserved_loss":"pure 1 + delta 1/10000","shared":0,"statement":"SELECT ''it''''s''"}],"event":"reserve","totals":{"analyst ann":["1/1","1/10000","871848083159/1000000000000","219/64"],"group [\"team\", \"ann\"]":["1/1","1/10000","421692480641/500000000000","189/64"],"policy":["1/1","1/10000","409448855579/500000000000","85/32"]}}','c3d4b9570b6aab75fdc63ae6ad64faf8d03f8a315209c08675cbd55db281fdd7');
INSERT INTO "event" VALUES(5,'{"event":"settle","releases":[{"charged_loss":"sum 1/3 of 1 + delta 1/10000","entry":1,"payload":"bc51e9e65d79e1c90ba544ab2eae1044ccdf8c1af7a559ba375cba4276f7d99e","release":1,"reuse_key":"k"}],"totals":{"analyst ann":["1/3","1/10000","1/3","219/64"],"group [\"team\", \"ann\"]":["1/3","1/10000","1/3","189/64"],"policy":["1/3","1/10000","1/3","85/32"]}}','5e52a1b493ae9d2724f208ed8f19e4850e7464a129e26f5443e1d87d2768ee20');
INSERT INTO "event" VALUES(6,'{"entries":[{"analyst":"ann","at":"2026-11-28T23:22:02+00:00","entry":2,"holder":"elsewhere|1|1","mechanism":"noisy top-k","reading":"top-k","reserved_loss":"pure 1/2","shared":0,"statement":"SELECT ''it''''s''"}],"event":"reserve","totals":{"analyst ann":["5/6","1/10000","395541268637/600000000000","219/64"],"group [\"team\", \"ann\"]":["5/6","1/10000","949287026867/1500000000000","189/64"],"policy":["5/6","1/10000","919848184877/1500000000000","85/32"]}}','ab6398550a1a09bc89ce2068810c5326ba90d7c9f523635a3a3bc26cd54f4507');
INSERT INTO "event" VALUES(7,'{"entries":[2],"event":"fail","totals":{"analyst ann":["5/6","1/10000","395541268637/600000000000","219/64"],"group [\"team\", \"ann\"]":["5/6","1/10000","949287026867/1500000000000","189/64"],"policy":["5/6","1/10000","919848184877/1500000000000","85/32"]}}','55c496b364711f79220cc621c4623f042c0381547a523c8c5e69d7346f80c4fa');
INSERT INTO "event" VALUES(8,'{"entries":[{"analyst":"bob","at":"2026-11-28T23:22:02+00:00","entry":3,"holder":"elsewhere|1|1","mechanism":"noisy top-k","reading":"top-k","reserved_loss":"pure 1/4","shared":0,"statement":"SELECT ''it''''s''"}],"event":"reserve","totals":{"analyst bob":["1/4","0/1",null,null],"group [\"team\", \"bob\"]":["1/4","0/1","694428453/8000000000","189/64"],"policy":["13/12","1/10000","2076918634243/3000000000000","85/32"]}}','8fa1fc24cb05b9b2e73391b3c48d7014b43bc587328d1a9c65f30aa7878e4baf');
INSERT INTO "event" VALUES(9,'{"entries":[3],"event":"cancel","totals":{"analyst bob":["1/4","0/1",null,null],"group [\"team\", \"bob\"]":["1/4","0/1","694428453/8000000000","189/64"],"policy":["13/12","1/10000","2076918634243/3000000000000","85/32"]}}','7bece9444b8a738d2eefb39f5f733816e7cf18b9ee269a569a4140107504b0c8');
INSERT INTO "event" VALUES(10,'{"entries":[{"analyst":"bob","at":"2026-11-28T23:22:02+00:00","entry":4,"holder":"elsewhere|1|1","mechanism":"m","reading":"s","reserved_loss":"pure 1","shared":0,"statement":"stream"}],"event":"reserve","totals":{"analyst bob":["5/4","0/1",null,null],"group [\"team\", \"bob\"]":["5/4","0/1","930188517907/1000000000000","189/64"],"policy":["25/12","1/10000","4533611767717/3000000000000","85/32"]}}','cfaf333f10017ecb93a28151104283d02aca3be5edda5a91f62aacdb0f24bea8');
INSERT INTO "event" VALUES(11,'{"event":"settle","releases":[{"charged_loss":"stream 1/5 of 1","entry":4,"payload":null,"release":2,"reuse_key":null}],"totals":{"analyst bob":["9/20","0/1",null,null],"group [\"team\", \"bob\"]":["9/20","0/1","930188517907/1000000000000","189/64"],"policy":["77/60","1/10000","4533611767717/3000000000000","85/32"]}}','b7a0a356eb37d6430f065e4519dbe1ad971a9dac068b98f235c0474a755eb491');
INSERT INTO "event" VALUES(12,'{"entries":[{"analyst":"bob","at":"2026-11-28T23:22:02+00:00","entry":5,"holder":"elsewhere|1|1","mechanism":"m","part":[5,1,2],"reading":"r","reserved_loss":"pure 1/7","shared":0,"statement":"two"},{"analyst":"bob","at":"2026-11-28T23:22:02+00:00","entry":6,"holder":"elsewhere|1|1","mechanism":"m","part":[5,2,2],"reading":"r","reserved_loss":"pure 1/7","shared":0,"statement":"two"}],"event":"reserve","totals":{"analyst bob":["103/140","0/1",null,null],"group [\"team\", \"bob\"]":["103/140","0/1","989212154617/1000000000000","189/64"],"policy":["659/420","1/10000","4693596024259/3000000000000","85/32"]}}','4701985dde2e36791e75aa89ccf7081bb307d072f5eb874beeae19180d9b7f84');
INSERT INTO "event" VALUES(13,'{"event":"settle","releases":[{"charged_loss":"pure 1/7","entry":5,"payload":"7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed","release":3,"reuse_key":"a"},{"charged_loss":"pure 1/7","entry":6,"payload":"3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3","release":4,"reuse_key":"b"}],"totals":{"analyst bob":["103/140","0/1",null,null],"group [\"team\", \"bob\"]":["103/140","0/1","989212154617/1000000000000","189/64"],"policy":["659/420","1/10000","4693596024259/3000000000000","85/32"]}}','3320f224f789c43fe768d8df4c6bf6b3abd742ce762ea2a218aa8543e050bfcb');
INSERT INTO "event" VALUES(14,'{"entries":[{"analyst":"ann","at":"2026-11-28T23:22:02+00:00","entry":7,"holder":"elsewhere|1|1","mechanism":"noisy top-k","reading":"top-k","reserved_loss":"pure 1/10","shared":0,"statement":"SELECT ''it''''s''"}],"event":"reserve","totals":{"analyst ann":["14/15","1/10000","1014149716967/1500000000000","219/64"],"group [\"team\", \"ann\"]":["14/15","1/10000","971207746019/1500000000000","189/64"],"policy":["701/420","1/10000","2366559205607/1500000000000","85/32"]}}','75fc25b32dd2b722e22df3c32c1ea1972d6cace6a9ee5dda585a81909d21937d');
INSERT INTO "event" VALUES(15,'{"event":"settle","releases":[{"charged_loss":"pure 1/10","entry":7,"payload":"152397e39cbd1ca8d0be17ba26d2077b69a195c7d9c15e782470690d811e0dc1","release":5,"reuse_key":"c"}],"totals":{"analyst ann":["14/15","1/10000","1014149716967/1500000000000","219/64"],"group [\"team\", \"ann\"]":["14/15","1/10000","971207746019/1500000000000","189/64"],"policy":["701/420","1/10000","2366559205607/1500000000000","85/32"]}}','db80d676333f018b10b33d8b7bc5a6f4a04a813dffcf0610b8ef6fa22ea5049c');
INSERT INTO "event" VALUES(16,'{"entries":[{"analyst":"ann","at":"2026-11-28T23:22:02+00:00","entry":8,"holder":"elsewhere|1|1","mechanism":"noisy top-k","reading":"top-k","refinement":[5,"3/10"],"reserved_loss":"stream 1/5 of 2/5","shared":0,"statement":"SELECT ''it''''s''"}],"event":"reserve","totals":{"analyst ann":["17/15","1/10000","84594192479/93750000000","219/64"],"group [\"team\", \"ann\"]":["17/15","1/10000","2556366055087/3000000000000","189/64"],"policy":["157/84","1/10000","2650438201901/1500000000000","85/32"]}}','e1f1f42c50382f7c40389d6ab87c7527c9f351dfbf24315e539c11a77e549bae');
INSERT INTO "event" VALUES(17,'{"event":"settle","releases":[{"charged_loss":"stream 1/5 of 2/5","entry":8,"payload":"384ede47ade86629b0752c0fe8d39362b89f1f62952a8dcde435a4a14b183348","release":6,"reuse_key":null}],"totals":{"analyst ann":["17/15","1/10000","84594192479/93750000000","219/64"],"group [\"team\", \"ann\"]":["17/15","1/10000","2556366055087/3000000000000","189/64"],"policy":["157/84","1/10000","2650438201901/1500000000000","85/32"]}}','7d696ab84674c7f0d5534e62413a9a4e1d23583029b47cd5aec6f9014d2d51bc');
INSERT INTO "event" VALUES(18,'{"entries":[{"analyst":"cem","at":"2026-11-28T23:22:02+00:00","entry":9,"holder":"elsewhere|1|1","mechanism":"noisy top-k","reading":"top-k","reserved_loss":"pure 1/10","shared":1,"statement":"SELECT ''it''''s''"}],"event":"share","releases":[{"charged_loss":"pure 1/10","entry":9,"payload":"152397e39cbd1ca8d0be17ba26d2077b69a195c7d9c15e782470690d811e0dc1","release":7,"reuse_key":"c"}],"totals":{"analyst cem":["1/10","0/1",null,null],"policy":["157/84","1/10000","2650438201901/1500000000000","85/32"]}}','86ef68782841fd9a3a354be1f9908ec2bcaae1d439397891ffd5c8303e504f02');
INSERT INTO "event" VALUES(19,'{"entries":[{"analyst":"ann","at":"2026-11-28T23:22:02+00:00","entry":10,"holder":"elsewhere|1|1","mechanism":"gauss","reading":"r","reserved_loss":"gauss 1/200","shared":0,"statement":"gauss"}],"event":"reserve","totals":{"analyst ann":[null,"1/10000","344792785541/375000000000","219/64"],"group [\"team\", \"ann\"]":[null,"1/10000","2600662930087/3000000000000","189/64"],"policy":[null,"1/10000","2670360076901/1500000000000","85/32"]}}','ef42a4c26009ad466c0f09f8863ab3f2e6bd0ac2187f68bc00de29e5441c489f');
INSERT INTO "event" VALUES(20,'{"event":"settle","releases":[{"charged_loss":"gauss 1/200","entry":10,"payload":"cd0aa9856147b6c5b4ff2b7dfee5da20aa38253099ef1b4a64aced233c9afe29","release":8,"reuse_key":"g"}],"totals":{"analyst ann":[null,"1/10000","344792785541/375000000000","219/64"],"group [\"team\", \"ann\"]":[null,"1/10000","2600662930087/3000000000000","189/64"],"policy":[null,"1/10000","2670360076901/1500000000000","85/32"]}}','be632950f902afb813627d26acdd70a1cf475809990248899fc0e69d2a267213');
INSERT INTO "event" VALUES(21,'{"event":"bounds","ladders":[{"at":"2026-11-28T23:22:02+00:00","holder":"elsewhere|1|1","loss":"pure 1/16","measure":"rows","number":1,"source":"visits","statement":"dpsql bounds visits","version":"v1"},{"at":"2026-11-28T23:22:02+00:00","holder":"elsewhere|1|1","loss":"pure 1/16","measure":"pages","number":2,"source":"visits","statement":"dpsql bounds visits","version":"v1"},{"at":"2026-11-28T23:22:02+00:00","holder":"elsewhere|1|1","loss":"pure 1/16","measure":"SUM(cost)","number":3,"source":"visits","statement":"dpsql bounds visits","version":"v1"}],"totals":{"bounds":["3/16","0/1","15514559889/1000000000000","85/32"],"policy":[null,"1/10000","5387263833469/3000000000000","85/32"]}}','f5881b80793234c525ddeb7b96d8dc29b69f3b9b189807249750691cc79a6868');
INSERT INTO "event" VALUES(22,'{"event":"bounds-settle","ladder":1,"payload":"f8bd2d352d8cefd78d2e5aeb9ed94fc56dd5cc1924c2d37785759831cb72c71e","totals":{"bounds":["3/16","0/1","15514559889/1000000000000","85/32"],"policy":[null,"1/10000","5387263833469/3000000000000","85/32"]}}','71793595e3fa0a60ee9dc45adb51436d9ca49eb027e57a1730174fd8ee565f8e');
INSERT INTO "event" VALUES(23,'{"event":"bounds-fail","ladder":2,"totals":{"bounds":["3/16","0/1","15514559889/1000000000000","85/32"],"policy":[null,"1/10000","5387263833469/3000000000000","85/32"]}}','8154c44c33080e6b77ceda0ef7029664093527a7d1e21207db348753b85d4873');
INSERT INTO "event" VALUES(24,'{"added":{"analyst bob":["1/11","0/1",null,null,"1273/1540"],"policy":[null,"0/1","85179053/7812500000","85/32",null]},"ended":[],"event":"restored","ladders":[3],"mark":{"hash":"59562b4c90d9e4ec656e0052e99a142c54ad35812d2cf4463fcbb9572fe3829f","ledger":"270f61ed729cc10cab946f2ad2d8d94f","n":25},"totals":{"analyst ann":[null,"1/10000","344792785541/375000000000","219/64"],"analyst bob":["1273/1540","0/1",null,null],"analyst cem":["1/10","0/1",null,null],"bounds":["3/16","0/1","15514559889/1000000000000","85/32"],"policy":[null,"1/10000","5419972589821/3000000000000","85/32"]}}','14bec899e14713947da013b8d232c6010bfdcb12e8ae2b57b19ecf47f27abb33');
INSERT INTO "event" VALUES(25,'{"at":"2026-11-28T23:22:02+00:00","caps":{"alpha":"85/32","analysts":{"*":["5/1","0/1"],"ann":["6/1","1/1000"]},"conversion_delta":"1/2000","groups":{"team":["ann","bob","cem","8/1","1/1000"]},"limits":[9,90,20,200],"per_query":null,"total":["10/1","1/1000"]},"event":"policy","totals":{"analyst ann":[null,"1/10000","344792785541/375000000000","219/64"],"analyst bob":["1273/1540","0/1",null,null],"analyst cem":["1/10","0/1",null,null],"bounds":["3/16","0/1","15514559889/1000000000000","85/32"],"group [\"team\", \"ann\"]":[null,"1/10000","2600662930087/3000000000000","189/64"],"group [\"team\", \"bob\"]":["1273/1540","0/1","139819335905509/77000000000000","189/64"],"group [\"team\", \"cem\"]":["1/10","0/1","456681649/31250000000","189/64"],"policy":[null,"1/10000","5419972589821/3000000000000","85/32"]}}','2358e98bacce3d2b10f86a9998df7f7d559e66b1e91a2481b5c627835b25f5b1');
INSERT INTO "event" VALUES(26,'{"entries":[{"analyst":"ann","at":"2026-11-28T23:22:02+00:00","entry":11,"holder":"elsewhere|1|1","mechanism":"noisy top-k","reading":"top-k","reserved_loss":"pure 1/2","shared":0,"statement":"SELECT ''it''''s''"}],"event":"reserve","totals":{"analyst ann":[null,"1/10000","3736048627513/3000000000000","219/64"],"bounds":["3/16","0/1","15514559889/1000000000000","85/32"],"group [\"team\", \"ann\"]":[null,"1/10000","3499236983821/3000000000000","189/64"],"policy":[null,"1/10000","250386758383/120000000000","85/32"]}}','85bd6d34b6909481027c20c78b7c9e8013415ea36d5bc3b9b7ae487b73002419');
INSERT INTO "event" VALUES(27,'{"entries":[{"analyst":"bob","at":"2026-11-28T23:22:02+00:00","entry":12,"holder":"elsewhere|1|1","mechanism":"noisy top-k","reading":"top-k","reserved_loss":"pure 1/9","shared":0,"statement":"SELECT ''it''''s''"}],"event":"reserve","totals":{"analyst bob":["12997/13860","0/1",null,null],"bounds":["3/16","0/1","15514559889/1000000000000","85/32"],"group [\"team\", \"bob\"]":["12997/13860","0/1","141205230588297/77000000000000","189/64"],"policy":[null,"1/10000","6308370368011/3000000000000","85/32"]}}','d9273de443ee905c69d9bb9b26a04b13018bd37522e3d7f6938a9d3e3643f71f');
INSERT INTO "event" VALUES(28,'{"event":"bounds","ladders":[{"at":"2026-11-28T23:22:02+00:00","holder":"elsewhere|1|1","loss":"pure 1/32","measure":"days","number":4,"source":"visits","statement":"dpsql bounds visits","version":"v1"}],"totals":{"bounds":["7/32","0/1","16810523949/1000000000000","85/32"],"policy":[null,"1/10000","6312258260191/3000000000000","85/32"]}}','fff6d407c30d8fb5d62afe8c0c98417eec9bc652e58474927337c12ebb5458dc');
INSERT INTO "event" VALUES(29,'{"event":"mark","holder":"off","totals":{"analyst ann":[null,"1/10000","3736048627513/3000000000000","219/64"],"analyst bob":["12997/13860","0/1",null,null],"analyst cem":["1/10","0/1",null,null],"bounds":["7/32","0/1","16810523949/1000000000000","85/32"],"group [\"team\", \"ann\"]":[null,"1/10000","3499236983821/3000000000000","189/64"],"group [\"team\", \"bob\"]":["12997/13860","0/1","141205230588297/77000000000000","189/64"],"group [\"team\", \"cem\"]":["1/10","0/1","456681649/31250000000","189/64"],"policy":[null,"1/10000","6312258260191/3000000000000","85/32"]}}','fa671449bd59b406c89945ab91f9046514bf36de610a9ac9b6bcf1ad1046641c');
INSERT INTO "event" VALUES(30,'{"at":"2026-11-29T10:09:16+00:00","caps":{"alpha":"85/32","analysts":{"*":["5/1","0/1"],"ann":["6/1","1/1000"]},"conversion_delta":"1/2000","groups":{"team":["ann","bob","cem","8/1","1/1000"]},"limits":[9,90,20,200],"per_query":null,"total":["10/1","1/1000"]},"event":"policy","facts":"9af084848454c7ccea68459316395058dc60e93e8510d23c74589e00b5804cd7","totals":{"bounds":["7/32","0/1","16810523949/1000000000000","85/32"],"policy":[null,"1/10000","6312258260191/3000000000000","85/32"]}}','55b32edfb8aaf5302d7a5a8d0d6097ed0fa6ffe07ed172d748c3cbccc2b8708b');
INSERT INTO "event" VALUES(31,'{"entries":[{"analyst":"dee","at":"2026-11-29T10:09:16+00:00","entry":13,"holder":"72271345-b9bf-4a64-b7ee-604025e52144/pid:[4026531836]|2280|1474916","mechanism":"m","reading":"r","reserved_loss":"pure 1/8","shared":0,"statement":"SELECT seven"}],"event":"reserve","totals":{"analyst dee":["1/8","0/1",null,null],"bounds":["7/32","0/1","16810523949/1000000000000","85/32"],"policy":[null,"1/10000","6373734901489/3000000000000","85/32"]}}','15c401d89b5a59b933237cf9219c83a33213341d0fe29d6a9c70d4d00f9bf7bd');
INSERT INTO "event" VALUES(32,'{"event":"settle","releases":[{"charged_loss":"sum 1/16 of 1/8","entry":13,"payload":"bc51e9e65d79e1c90ba544ab2eae1044ccdf8c1af7a559ba375cba4276f7d99e","release":9,"reuse_key":"seven"}],"totals":{"analyst dee":["1/16","0/1",null,null],"bounds":["7/32","0/1","16810523949/1000000000000","85/32"],"policy":[null,"1/10000","6373734901489/3000000000000","85/32"]}}','a5137d7c063ac01d7cadc7e7f47dbe1cf32045fba6397d1e1da3fc2e6a8a9229');
INSERT INTO "event" VALUES(33,'{"at":"2026-11-29T13:15:49+00:00","caps":{"alpha":"85/32","analysts":{"*":["5/1","0/1"],"ann":["6/1","1/1000"]},"conversion_delta":"1/2000","groups":{"team":["ann","bob","cem","8/1","1/1000"]},"limits":[9,90,20,200],"parts":"visits by week","per_query":null,"total":["10/1","1/1000"]},"event":"policy","facts":null,"totals":{"analyst ann":[null,"1/10000","3736048627513/3000000000000","219/64"],"analyst bob":["12997/13860","0/1",null,null],"analyst cem":["1/10","0/1",null,null],"analyst dee":["1/16","0/1",null,null],"bounds":["7/32","0/1","16810523949/1000000000000","85/32"],"group [\"team\", \"ann\"]":[null,"1/10000","3499236983821/3000000000000","189/64"],"group [\"team\", \"bob\"]":["12997/13860","0/1","141205230588297/77000000000000","189/64"],"group [\"team\", \"cem\"]":["1/10","0/1","456681649/31250000000","189/64"],"policy":[null,"1/10000","6373734901489/3000000000000","85/32"]}}','b45fa4b645ace7b39ed6358ec5217e2da2aa284e217e5c11fa9dd9f7f0a59283');
INSERT INTO "event" VALUES(34,'{"entries":[{"analyst":"ann","at":"2026-11-29T13:15:49+00:00","entry":14,"holder":"elsewhere|1|1","mechanism":"laplace","parts":[[2900,2904]],"reading":"count","reserved_loss":"pure 1/8","shared":0,"statement":"SELECT 1"}],"event":"reserve","totals":{"analyst ann":[null,"1/10000","3736048627513/3000000000000","219/64"],"bounds":["7/32","0/1","16810523949/1000000000000","85/32"],"by parts analyst ann":["1/8","0/1","1712861371363/65520000000000","219/64"],"by parts group [\"team\", \"ann\"]":["1/8","0/1","2727193081573/120120000000000","189/64"],"by parts policy":["1/8","0/1","615381179393/30030000000000","85/32"],"group [\"team\", \"ann\"]":[null,"1/10000","3499236983821/3000000000000","189/64"],"policy":[null,"1/10000","6373734901489/3000000000000","85/32"]}}','1c8ba5c94c92cc6b54ac34530ac7734393d398114aa391670cb11117f351fa61');
INSERT INTO "event" VALUES(35,'{"event":"settle","releases":[{"charged_loss":"pure 1/8","entry":14,"payload":"eb0d2375b51859a3212007c5a52de4b476022b3e9d45df6242497c4378631cba","release":10,"reuse_key":"w"}],"totals":{"analyst ann":[null,"1/10000","3736048627513/3000000000000","219/64"],"bounds":["7/32","0/1","16810523949/1000000000000","85/32"],"by parts analyst ann":["1/8","0/1","1712861371363/65520000000000","219/64"],"by parts group [\"team\", \"ann\"]":["1/8","0/1","2727193081573/120120000000000","189/64"],"by parts policy":["1/8","0/1","615381179393/30030000000000","85/32"],"group [\"team\", \"ann\"]":[null,"1/10000","3499236983821/3000000000000","189/64"],"policy":[null,"1/10000","6373734901489/3000000000000","85/32"]}}','b28b83b8362d0368e3c98bb276ff738d2970dff01ef516f2de40b8ee461c8979');
INSERT INTO "event" VALUES(36,'{"entries":[{"analyst":"ann","at":"2026-11-29T13:15:49+00:00","entry":15,"holder":"elsewhere|1|1","mechanism":"stream of checks","reading":"checks daily","reserved_loss":"pure 1/4","shared":0,"statement":"OPEN CHECKS daily OPTIONS (epsilon = 1, misses = 8)"}],"event":"reserve","totals":{"analyst ann":[null,"1/10000","2015544316253/1500000000000","219/64"],"bounds":["7/32","0/1","16810523949/1000000000000","85/32"],"by parts analyst ann":["1/8","0/1","1712861371363/65520000000000","219/64"],"by parts group [\"team\", \"ann\"]":["1/8","0/1","2727193081573/120120000000000","189/64"],"by parts policy":["1/8","0/1","615381179393/30030000000000","85/32"],"group [\"team\", \"ann\"]":[null,"1/10000","58744494589/46875000000","189/64"],"policy":[null,"1/10000","3305478582989/1500000000000","85/32"]}}','4e2de74c059b10ffe670b9f3e0e51a78725007fdcb8c1bd9d78608cf3df5b656');
CREATE TABLE failed (analyst TEXT PRIMARY KEY, n INTEGER NOT NULL CHECK (n >= 0)) WITHOUT ROWID;
INSERT INTO "failed" VALUES('ann',1);
CREATE TABLE node (
    scope TEXT NOT NULL,
    level INTEGER NOT NULL CHECK (level BETWEEN 0 AND 5),
    place INTEGER NOT NULL CHECK (place >= 0),
    epsilon INTEGER NOT NULL DEFAULT 0 CHECK (epsilon BETWEEN 0 AND 1 << 60),
    open INTEGER NOT NULL DEFAULT 0 CHECK (open >= 0),
    delta INTEGER NOT NULL DEFAULT 0 CHECK (delta BETWEEN 0 AND 1 << 60),
    cost INTEGER NOT NULL DEFAULT 0 CHECK (cost BETWEEN 0 AND 1 << 60),
    below_epsilon INTEGER NOT NULL DEFAULT 0,
    below_open INTEGER NOT NULL DEFAULT 0,
    below_delta INTEGER NOT NULL DEFAULT 0,
    below_cost INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (scope, level, place)
) WITHOUT ROWID;
INSERT INTO "node" VALUES('analyst ann',0,2900,90090000000000,0,0,18841475084993,0,0,0,0);
INSERT INTO "node" VALUES('analyst ann',0,2901,90090000000000,0,0,18841475084993,0,0,0,0);
INSERT INTO "node" VALUES('analyst ann',0,2902,90090000000000,0,0,18841475084993,0,0,0,0);
INSERT INTO "node" VALUES('analyst ann',0,2903,90090000000000,0,0,18841475084993,0,0,0,0);
INSERT INTO "node" VALUES('analyst ann',0,2904,90090000000000,0,0,18841475084993,0,0,0,0);
INSERT INTO "node" VALUES('analyst ann',1,181,0,0,0,0,90090000000000,0,0,18841475084993);
INSERT INTO "node" VALUES('analyst ann',2,11,0,0,0,0,90090000000000,0,0,18841475084993);
INSERT INTO "node" VALUES('analyst ann',3,0,0,0,0,0,90090000000000,0,0,18841475084993);
INSERT INTO "node" VALUES('analyst ann',4,0,0,0,0,0,90090000000000,0,0,18841475084993);
INSERT INTO "node" VALUES('analyst ann',5,0,0,0,0,0,90090000000000,0,0,18841475084993);
INSERT INTO "node" VALUES('group ["team", "ann"]',0,2900,90090000000000,0,0,16363158489438,0,0,0,0);
INSERT INTO "node" VALUES('group ["team", "ann"]',0,2901,90090000000000,0,0,16363158489438,0,0,0,0);
INSERT INTO "node" VALUES('group ["team", "ann"]',0,2902,90090000000000,0,0,16363158489438,0,0,0,0);
INSERT INTO "node" VALUES('group ["team", "ann"]',0,2903,90090000000000,0,0,16363158489438,0,0,0,0);
INSERT INTO "node" VALUES('group ["team", "ann"]',0,2904,90090000000000,0,0,16363158489438,0,0,0,0);
INSERT INTO "node" VALUES('group ["team", "ann"]',1,181,0,0,0,0,90090000000000,0,0,16363158489438);
INSERT INTO "node" VALUES('group ["team", "ann"]',2,11,0,0,0,0,90090000000000,0,0,16363158489438);
INSERT INTO "node" VALUES('group ["team", "ann"]',3,0,0,0,0,0,90090000000000,0,0,16363158489438);
INSERT INTO "node" VALUES('group ["team", "ann"]',4,0,0,0,0,0,90090000000000,0,0,16363158489438);
INSERT INTO "node" VALUES('group ["team", "ann"]',5,0,0,0,0,0,90090000000000,0,0,16363158489438);
INSERT INTO "node" VALUES('policy',0,2900,90090000000000,0,0,14769148305432,0,0,0,0);
INSERT INTO "node" VALUES('policy',0,2901,90090000000000,0,0,14769148305432,0,0,0,0);
INSERT INTO "node" VALUES('policy',0,2902,90090000000000,0,0,14769148305432,0,0,0,0);
INSERT INTO "node" VALUES('policy',0,2903,90090000000000,0,0,14769148305432,0,0,0,0);
INSERT INTO "node" VALUES('policy',0,2904,90090000000000,0,0,14769148305432,0,0,0,0);
INSERT INTO "node" VALUES('policy',1,181,0,0,0,0,90090000000000,0,0,14769148305432);
INSERT INTO "node" VALUES('policy',2,11,0,0,0,0,90090000000000,0,0,14769148305432);
INSERT INTO "node" VALUES('policy',3,0,0,0,0,0,90090000000000,0,0,14769148305432);
INSERT INTO "node" VALUES('policy',4,0,0,0,0,0,90090000000000,0,0,14769148305432);
INSERT INTO "node" VALUES('policy',5,0,0,0,0,0,90090000000000,0,0,14769148305432);
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
INSERT INTO "progress" VALUES(15,1,'1/8','0/1');
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
INSERT INTO "release" VALUES(1,1,'2026-11-28T23:22:02+00:00','ann','k',X'726F7773',5);
INSERT INTO "release" VALUES(2,4,'2026-11-28T23:22:02+00:00','bob',NULL,NULL,11);
INSERT INTO "release" VALUES(3,5,'2026-11-28T23:22:02+00:00','bob','a',X'6F6E65',13);
INSERT INTO "release" VALUES(4,6,'2026-11-28T23:22:02+00:00','bob','b',X'74776F',13);
INSERT INTO "release" VALUES(5,7,'2026-11-28T23:22:02+00:00','ann','c',X'636F61727365',15);
INSERT INTO "release" VALUES(6,8,'2026-11-28T23:22:02+00:00','ann',NULL,X'66696E6572',17);
INSERT INTO "release" VALUES(7,9,'2026-11-28T23:22:02+00:00','cem','c',X'636F61727365',18);
INSERT INTO "release" VALUES(8,10,'2026-11-28T23:22:02+00:00','ann','g',X'67',20);
INSERT INTO "release" VALUES(9,13,'2026-11-29T10:09:16+00:00','dee','seven',X'726F7773',32);
INSERT INTO "release" VALUES(10,14,'2026-11-29T13:15:49+00:00','ann','w',X'7765656B73',35);
CREATE TABLE restored (
    event INTEGER NOT NULL REFERENCES event (n) DEFERRABLE INITIALLY DEFERRED, scope TEXT NOT NULL,
    epsilon TEXT, delta TEXT NOT NULL, cost TEXT, alpha TEXT,
    most TEXT, -- what it costs at most, at any order
    PRIMARY KEY (event, scope)
) WITHOUT ROWID;
INSERT INTO "restored" VALUES(24,'analyst bob','1/11','0/1',NULL,NULL,'1273/1540');
INSERT INTO "restored" VALUES(24,'policy',NULL,'0/1','85179053/7812500000','85/32',NULL);
CREATE TABLE running (
    analyst TEXT NOT NULL, holder TEXT NOT NULL, n INTEGER NOT NULL CHECK (n > 0),
    PRIMARY KEY (analyst, holder)
) WITHOUT ROWID;
INSERT INTO "running" VALUES('ann','elsewhere|1|1',2);
INSERT INTO "running" VALUES('bob','elsewhere|1|1',1);
CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO "setting" VALUES('caps','{"alpha":"85/32","analysts":{"*":["5/1","0/1"],"ann":["6/1","1/1000"]},"conversion_delta":"1/2000","groups":{"team":["ann","bob","cem","8/1","1/1000"]},"limits":[9,90,20,200],"parts":"visits by week","per_query":null,"total":["10/1","1/1000"]}');
INSERT INTO "setting" VALUES('facts','');
INSERT INTO "setting" VALUES('ledger','77777777777777777777777777777777');
INSERT INTO "setting" VALUES('mark','{"begun":[[3,"061844526949fbad73d10ba4b32a5d8ea9c4f56e9d611edeb5896a778b43b2d5"],[24,"14bec899e14713947da013b8d232c6010bfdcb12e8ae2b57b19ecf47f27abb33"],[29,"fa671449bd59b406c89945ab91f9046514bf36de610a9ac9b6bcf1ad1046641c"]],"holder":"off"}');
INSERT INTO "setting" VALUES('parts','visits by week');
INSERT INTO "setting" VALUES('parts type','');
INSERT INTO "setting" VALUES('policy','p');
INSERT INTO "setting" VALUES('vetted visits','v1');
CREATE TABLE total (
    name TEXT PRIMARY KEY, epsilon TEXT, delta TEXT NOT NULL, cost TEXT, alpha TEXT
) WITHOUT ROWID;
INSERT INTO "total" VALUES('analyst ann',NULL,'1/10000','2015544316253/1500000000000','219/64');
INSERT INTO "total" VALUES('analyst bob','12997/13860','0/1',NULL,NULL);
INSERT INTO "total" VALUES('analyst cem','1/10','0/1',NULL,NULL);
INSERT INTO "total" VALUES('analyst dee','1/16','0/1',NULL,NULL);
INSERT INTO "total" VALUES('bounds','7/32','0/1','16810523949/1000000000000','85/32');
INSERT INTO "total" VALUES('group ["team", "ann"]',NULL,'1/10000','58744494589/46875000000','189/64');
INSERT INTO "total" VALUES('group ["team", "bob"]','12997/13860','0/1','141205230588297/77000000000000','189/64');
INSERT INTO "total" VALUES('group ["team", "cem"]','1/10','0/1','456681649/31250000000','189/64');
INSERT INTO "total" VALUES('policy',NULL,'1/10000','3305478582989/1500000000000','85/32');
CREATE TABLE touch (
    entry INTEGER NOT NULL REFERENCES entry (entry),
    low INTEGER NOT NULL CHECK (low >= 0),
    high INTEGER NOT NULL CHECK (high >= low),
    PRIMARY KEY (entry, low)
) WITHOUT ROWID;
INSERT INTO "touch" VALUES(14,2900,2904);
CREATE TABLE tree (scope TEXT PRIMARY KEY, alpha TEXT) WITHOUT ROWID;
INSERT INTO "tree" VALUES('analyst ann','219/64');
INSERT INTO "tree" VALUES('group ["team", "ann"]','189/64');
INSERT INTO "tree" VALUES('policy','85/32');
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
CREATE INDEX bounds_measure ON bounds (source, measure, number);
CREATE TRIGGER bounds_stays BEFORE DELETE ON bounds
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER bounds_ends_once BEFORE UPDATE ON bounds
WHEN OLD.state <> 'reserved' OR NEW.state = 'reserved' OR NEW.number IS NOT OLD.number OR NEW.at IS NOT OLD.at
    OR NEW.source IS NOT OLD.source OR NEW.measure IS NOT OLD.measure OR NEW.version IS NOT OLD.version
    OR NEW.statement IS NOT OLD.statement OR NEW.loss IS NOT OLD.loss OR NEW.holder IS NOT OLD.holder
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER touch_stays BEFORE DELETE ON touch
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER touch_is_final BEFORE UPDATE ON touch
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
COMMIT;
