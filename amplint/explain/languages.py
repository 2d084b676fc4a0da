"""The commonest words of questions in Chinese, Japanese, Korean, Russian and German, as the English ones say it.

A question is not translated: what it speaks of is read word by word, so the glue between the words may be missing.
"""

from __future__ import annotations

import re

# Of two that begin at the same place the earlier one counts: phrases stand before their words.
_WORDS: tuple[tuple[str, str], ...] = (
    # Chinese and Japanese
    ("混合精度", "mixed precision"),
    ("半精度", "half precision"),
    ("[单全單]精度|単精度", "full precision"),
    (
        "(?:训练|訓練)?速度[^,，。.?？]{0,6}(?:差不多|一样|一樣|相同|没变|没有?变化|沒有?變化|不变)|速度が?(?:変わら|同じ)",
        "same speed",
    ),
    (
        "(?:没有?|沒有?|不|未)(?:明显|什么|任何)?的?(?:加速|提速|变快|變快|提升速度)|(?:速く|早く)なら|高速化(?:され|し)(?:な|ま)",
        "not faster",
    ),
    ("加速|提速|高速化", "speedup"),
    ("[变變]慢|更慢|太慢|很慢|慢|遅", "slow"),
    ("显存|顯存", "gpu memory"),
    ("内存|內存|メモリー?", "memory"),
    ("爆显存", "out of memory"),
    (
        "(?:没有?|沒有?|不|未)(?:明显|怎么)?(?:减少|減少|变少|變少|下降|降低|降)|"
        "降不下[来來]|(?:下が|減|減少し)ら?(?:ない|りません|ません|ず)",
        "does not decrease",
    ),
    ("减半|減半|减少|減少|减小|節省|节省|節約", "reduced"),
    ("(?:不|无法|無法|没有?|沒有?|未)收[敛斂]|収束し(?:な|ま)", "does not converge"),
    ("不学习|学不到|(?:学習し|学習が進ま)(?:ない|ません|ず)", "does not learn"),
    ("(?:没有?|沒有?|不|未)(?:更新)|更新され(?:な|ま)", "not updated"),
    ("(?:保持|一直|始终)?(?:不[变變]|没有?[变變]化|沒有?變化)|変わら(?:ない|ず)|変化し(?:な|ま)", "stays the same"),
    ("损失缩放|損失縮放|ロススケール|スケール", "loss scale"),
    ("损失函数|损失|損失|ロス", "loss"),
    ("梯度|勾配", "gradients"),
    ("发散|發散", "diverges"),
    ("爆炸|爆発", "explodes"),
    ("下溢|アンダーフロー", "underflow"),
    ("溢出|オーバーフロー", "overflow"),
    ("断点续训|恢复训练|继续训练|恢复|再開", "resume"),
    ("学习率|學習率|学習率", "learning rate"),
    ("训练|訓練|学習", "training"),
    ("推理|推論|预测|預測", "inference"),
    ("验证|驗證|検証", "validation"),
    ("测试|測試|テスト", "test"),
    ("评估|評估|評価", "evaluation"),
    ("准确率|準確率|准确度|正确率|精度|性能|指标", "accuracy"),
    ("下降|降低|变差|變差|掉点|低下|悪化|悪く|下が", "drops"),
    ("更差|较差", "worse"),
    ("黑图|全黑|黑色?(?:的)?(?:图|圖|画面)|真っ黒|黒い画像", "black image"),
    ("空值|非数", "nan"),
    ("权重|權重|重み", "weights"),
    ("参数|參數|パラメータ", "parameters"),
    ("优化器|優化器|オプティマイザー?", "optimizer"),
    ("裁剪|クリッピング|クリップ", "clip"),
    ("累积|累計|累加|蓄積", "accumulation"),
    ("跳过|跳過|スキップ", "skipped"),
    ("(?:数据|資料)?类型(?:不匹配|不一致|不同)|型が(?:違|一致し)", "dtype mismatch"),
    ("报错|報錯|错误|錯誤|エラー", "error"),
    ("输出|輸出|出力", "output"),
    ("保存", "save"),
    ("一开始|刚开始|開始|第一[个個步]|最初", "first"),
    ("突然|急に", "suddenly"),
    ("之后|以后|之後|後に|后", "after"),
    ("途中", "later"),
    ("显卡|顯卡", "gpu"),
    ("影响|影響|영향", "affect"),
    ("(?:по)?влия\\w+|beeinfluss\\w+", "affect"),
    ("(?:特别|非常|异常|過|过|很|太)大|大きすぎ|大きくな|너무 ?[크커큰]\\w*|매우 ?[크커큰]\\w*", "very large"),
    ("очень больш\\w+|слишком больш\\w+|(?:sehr|zu|extrem) groß\\w*", "very large"),
    ("模型|モデル", "model"),
    # Korean
    ("혼합 ?정밀도", "mixed precision"),
    ("반 ?정밀도", "half precision"),
    ("단 ?정밀도", "full precision"),
    ("속도[가는]? ?(?:같|똑같|차이가 없|비슷|그대로)\\w*", "same speed"),
    ("(?:빨라지지|빠르지|가속되지) ?않\\w*|안 ?빨라\\w*", "not faster"),
    ("느[려리린림]\\w*", "slow"),
    ("메모리", "memory"),
    ("(?:줄어들지|줄지|감소하지|내려가지|떨어지지) ?않\\w*|안 ?(?:줄|내려|떨어)\\w*", "does not decrease"),
    ("수렴(?:하지|이|을)? ?(?:않|안|못)\\w*", "does not converge"),
    ("(?:학습|훈련)(?:되지|하지|이|을)? ?(?:않|안|못)\\w*", "does not learn"),
    ("(?:변하지|바뀌지|업데이트되지) ?않\\w*|변화가 없\\w*", "stays the same"),
    ("손실 ?스케일|로스 ?스케일", "loss scale"),
    ("손실|로스", "loss"),
    ("그래디언트|그라디언트|기울기", "gradients"),
    ("발산", "diverges"),
    ("오버플로우?", "overflow"),
    ("언더플로우?", "underflow"),
    ("학습률", "learning rate"),
    ("학습|훈련", "training"),
    ("추론", "inference"),
    ("검증", "validation"),
    ("평가", "evaluation"),
    ("테스트", "test"),
    ("정확도|성능", "accuracy"),
    ("떨어\\w*|낮아\\w*|저하\\w*|나빠\\w*", "drops"),
    ("검은 ?(?:이미지|화면)", "black image"),
    ("가중치", "weights"),
    ("재개", "resume"),
    ("오류|에러", "error"),
    ("출력", "output"),
    ("처음", "first"),
    ("갑자기", "suddenly"),
    ("모델", "model"),
    # Russian
    ("смешанн\\w+ точност\\w+", "mixed precision"),
    ("половинн\\w+ точност\\w+", "half precision"),
    ("(?:одинарн|полн)\\w+ точност\\w+", "full precision"),
    ("скорость (?:\\w+ )?(?:та же|такая же|не изменилась|не меняется|одинаков\\w+)", "same speed"),
    ("не (?:ускоря|быстре)\\w*|нет (?:ускорения|прироста скорости)|без ускорения", "not faster"),
    ("медленн\\w*|тормоз\\w*", "slow"),
    ("памят\\w+|видеопамят\\w+", "memory"),
    ("не (?:уменьша|снижа|пада|убыва)\\w*", "does not decrease"),
    ("не сход\\w*", "does not converge"),
    ("не (?:обуча|учит)\\w*", "does not learn"),
    ("не (?:меня|изменя|обновля)\\w*", "stays the same"),
    ("функци\\w+ потерь|потер[ьия]\\w*|лосс\\w*", "loss"),
    ("градиент\\w*", "gradients"),
    ("расход(?:ит|ят)\\w*", "diverges"),
    ("взрыва\\w+", "explodes"),
    ("переполнен\\w+", "overflow"),
    ("скорост\\w+ обучения", "learning rate"),
    ("(?:возобнов|продолж)\\w+", "resume"),
    ("обуч\\w+|трениров\\w+", "training"),
    ("инференс\\w*|вывод\\w*|предсказан\\w+", "inference"),
    ("валидаци\\w+", "validation"),
    ("точност\\w+|качеств\\w+", "accuracy"),
    ("пада\\w+|снижа\\w+|ухудша\\w+|хуже", "drops"),
    ("ч[её]рн\\w+ (?:изображени|картинк|экран)\\w*", "black image"),
    ("веса|весов|весах", "weights"),
    ("ошибк\\w+", "error"),
    ("перв\\w+", "first"),
    ("эпох\\w*", "epochs"),
    ("шаг\\w*", "steps"),
    ("после", "after"),
    ("становит\\w+|получа\\w+", "becomes"),
    ("модел\\w+", "model"),
    # German
    ("gemischte\\w* (?:genauigkeit|präzision)", "mixed precision"),
    ("halbe\\w* (?:genauigkeit|präzision)", "half precision"),
    ("(?:volle|einfache)\\w* (?:genauigkeit|präzision)", "full precision"),
    ("(?:gleich|genauso|ebenso) (?:schnell|langsam)|dauert (?:genauso|gleich) lang\\w*", "same speed"),
    ("(?:nicht|kaum|nie|keine?) (?:\\w+ )?(?:schneller|beschleunig\\w*)", "not faster"),
    ("langsam\\w*", "slow"),
    ("(?:grafik|arbeits)?speicher(?!n\\b)\\w*", "memory"),
    ("(?:sinkt|fällt|verringert sich) (?:\\w+ )?nicht|nicht (?:weniger|kleiner)", "does not decrease"),
    ("konvergiert (?:\\w+ )?nicht|nicht konvergier\\w*", "does not converge"),
    ("(?:lernt|trainiert) (?:\\w+ )?(?:nicht|nichts)", "does not learn"),
    ("bleibt (?:\\w+ )?(?:gleich|konstant)|(?:ändert|ändern) sich (?:\\w+ )?nicht", "stays the same"),
    ("(?:trainings|validierungs)?verlust(?:e|es|funktion)?", "loss"),
    ("gradienten", "gradients"),
    ("überl[aä]uf\\w*|läuft über", "overflow"),
    ("divergiert", "diverges"),
    ("explodier\\w+", "explodes"),
    ("lernrate", "learning rate"),
    ("fort(?:gesetzt|setzen|setzung)|wiederaufn\\w+", "resume"),
    ("trainier\\w+", "training"),
    ("inferenz\\w*|vorhersage\\w*", "inference"),
    ("validierung\\w*", "validation"),
    ("auswertung\\w*", "evaluation"),
    ("genauigkeit\\w*", "accuracy"),
    ("schlechter\\w*|sinkt|fällt", "drops"),
    ("schwarze\\w* bild\\w*", "black image"),
    ("gewichte\\w*", "weights"),
    ("epochen?", "epochs"),
    ("schritte?n?", "steps"),
    ("ersten?", "first"),
    ("plötzlich", "suddenly"),
    ("nach (?=\\d|einig|wenig|ein)", "after "),
    ("wird", "becomes"),
    ("mehr", "more"),
    ("fehler\\w*", "error"),
    ("modell\\w*", "model"),
)
_LETTERS = "a-zäöüßа-яё"
# Languages that set no spaces between words need none around what is found.
_WITHOUT_SPACES = "[\u3040-\u9fff\uac00-\ud7a3]"


def _any_of(spaced: bool) -> str:
    """An expression for the words of the languages that set spaces, or of the others."""
    return "|".join(
        f"(?P<w{at}>{words})"
        for at, (words, _) in enumerate(_WORDS)
        if spaced is not bool(re.search(_WITHOUT_SPACES, words))
    )


# Most texts are English: what no word begins with is passed over at once.
_FOUND = re.compile(
    f"(?={_WITHOUT_SPACES})(?:{_any_of(spaced=False)})|(?<![{_LETTERS}])(?:{_any_of(spaced=True)})(?![{_LETTERS}])"
)


def english(text: str) -> str:
    """A text in lower case, in which the words of other languages that questions have are English ones."""

    def said(found: re.Match[str]) -> str:
        return f" {_WORDS[int((found.lastgroup or 'w0')[1:])][1]} "

    return _FOUND.sub(said, text.lower())
