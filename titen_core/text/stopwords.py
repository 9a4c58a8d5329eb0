"""Function words of English, Indonesian and Javanese: words that say nothing about what is asked.

A query does without them; an index keeps them. Written as the analysis folds them: no accents, no
apostrophes. Everyday informal spellings (gak, yg, opo) stand beside the standard ones. A word that
means something in another of the three languages, or names something, is left out.
"""

__all__ = ["STOP_WORDS"]

_ENGLISH = """
a an the this that these those here there
i me my you your he him his she her it its we us our they them their
who whose which what when where why how
am is are was were be been being do does did doing done have has had having
can could might must shall should will would
not no nor and or but if then than so as because while until though although whether
of at by for with about against between into through during before after above below to from
up down in out on off over under again further onto upon within without per via
all any both each few more most other some such only own same too very just also ever even
im ive id youre youve hes shes weve theyre theyve thats whats wheres whos
dont doesnt didnt isnt arent wasnt werent cant couldnt wont wouldnt shouldnt
"""

_INDONESIAN = """
yang yg dan atau tetapi tapi namun serta maupun melainkan sedangkan
di ke dari pada kepada dalam oleh untuk utk buat bagi dengan dgn tanpa tentang terhadap antara sampai hingga
ini itu sini situ sana begini begitu tersebut
saya aku kamu anda dia ia beliau kami kita mereka kalian nya
apa apakah siapa siapakah kapan mana dimana kemana mengapa kenapa bagaimana gimana berapa
adalah ialah merupakan ada yaitu yakni
tidak tak tdk nggak enggak gak ga bukan jangan belum
akan sudah telah udah sedang masih lagi pernah bisa dapat boleh harus perlu
jika kalau bila apabila ketika saat sejak karena sebab supaya agar sehingga maka walaupun meskipun
sebagai seperti juga pun lah kah saja aja hanya cuma sangat sekali lebih paling agak semua setiap tiap
para si sang secara seorang sebuah suatu jadi nih sih dong deh kok
"""

_JAVANESE = """
sing kang ingkang lan utawa utowo nanging ananging
ing nang neng menyang marang dhateng saka saking seka kanggo kagem dening karo kaliyan kalih kalawan
nganti ngantos
iki iku kuwi kui niki niku menika punika kae ika kene kono kana mriki mriku
aku kula kulo dalem kowe koen sampeyan panjenengan dheweke deweke piyambakipun
apa opo menapa punapa sapa sopo sinten kapan endi ngendi pundi wonten
kepriye piye pripun geneya pira piro pinten
ana ono inggih yaiku yaiki
ora mboten boten ndak dudu sanes aja ojo aywa durung dereng
arep badhe wis uwis sampun lagi isih taksih nate isa saged kudu kedah
yen menawa manawa nalika amarga merga mergo jalaran supados murih mula mulane sanajan senajan
kaya koyo kados uga ugi wae ae bae mung namung banget sanget luwih langkung paling kabeh sedaya saben
para si sang dadi dados toh kok ta to tho
"""

_WEB = "http https www com"  # of an address, the parts that all have

STOP_WORDS = frozenset(" ".join((_ENGLISH, _INDONESIAN, _JAVANESE, _WEB)).split())
