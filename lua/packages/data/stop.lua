-- English words that carry no topic: articles, pronouns, prepositions, auxiliaries, and the letters.
return [[
a about above across after again against all almost along already also although always am among an and another any
anyone anything are around as at away b back be became because become becomes been before being below between both but
by c can cannot could d did do does doing done down during e each either else enough especially etc even ever every
everyone everything except f few for from further g get gets getting give given gives go goes going gone got h had has
have having he her here hers herself him himself his how however i if in indeed instead into is it its itself j just k
kept l last least less let like likely m made make makes making many may me might mine more most much must my myself n
near neither never no nobody none nor not nothing now o of off often on once one ones only onto or other others our ours
ourselves out over own p per perhaps q quite r rather really s same second see seem seems several shall she should since
so some somebody someone something sometimes somewhat soon still such t take taken than that the their theirs them
themselves then there thereby therefore these they thing things this those though through thus to together too toward
towards two u under unless until up upon us use used uses using usually v various very via w was way we well were what
when where whether which while who whole whom whose why will with within without would x y yet you your yours yourself z
'd 'll 's 't don't isn't it's doesn't didn't won't can't
]]
