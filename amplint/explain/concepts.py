"""What a question speaks of: the many words for one thing are one concept.

`amplint/explain/ranking.py` counts them, and `amplint/explain/tables` says with them which cause a question is about:
`nan & evaluation & !gradients`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from amplint.explain.languages import english

_NOT = (
    r"(?:not|no|never|none|nothing|without|doesnt|doest|dosent|dont|didnt|isnt|arent|wasnt|wont|cant|"
    r"cannot|stop(?:s|ped)?|"
    r"fail(?:s|ed)? to|hardly|barely|refuses? to|unable to)"
)
_CHANGE = (
    r"(?:learn|improv|converg|decreas|go(?:es|ing)? (?:down|anywhere)|drop|chang|updat|mov|train(?!er)|"
    r"optimi[sz](?!ers?\b)|reduc)"
)
_SOME = r"(?:a |an |the |some |few |several |many |couple |dozens? |hundreds? |thousands? |of |\d+k? )*"
_TIME = r"(?:steps?|iterations?|iters?|epochs?|batch(?:es)?|hours?|minutes?|days?|while|time|updates?)"
_FAST = r"(?:faster|quicker|speed ?ups?|speeds? up|acceleration|accelerated?|gains?|benefit|improvement in speed|speed)"
_HALF = r"fp16|float16|f16|half|16 ?bit|16 mixed|precision ?=? ?16|o[12]"
_BFLOAT = r"bf16|bfloat16"
_SCALER = r"(?:sharded|native|amp|loss)?(?:grad)?scaler"
_MIXED = (
    rf"amp|autocast\w*|auto cast\w*|mixed|amp\w*(?:callback|plugin|optimizer|hook)\w*|{_SCALER}|apex|"
    r"(?:reduced|low|lower|half) precision"
)

# Where a program waits that is stuck, and does not learn badly.
_WAITS = (
    r"(?:in|at|on|when|during|while) (?:\w+ ){0,3}"
    r"(?:amp|initiali\w*|init|backward|forward|nccl|ddp|loading|barrier|all ?reduce|launch|spawn)"
)
_GAN = (
    r"(?:[a-z]{1,3}|cycle|style|star|info|hifi|melgan|vqgan|realesr)?(?<!be)(?<!or)gans?\d?|"
    r"discriminators?|wgan\w*|"
    r"adversarial \w+|pix2pix"
)
_DATA = r"(?:inputs?|batch(?:es)?(?! ?norm)|data\w*(?! parallel)|samples?|labels?|targets?)"
_WORSE = r"(?:worse|lower|higher (?:loss|perplexity|error)|poor\w*|bad|degrad\w*|hurt\w*|drop\w*|decreas\w*)"

_CONCEPTS: dict[str, str] = {
    # What it runs in
    "amp": rf"{_HALF}|{_BFLOAT}|{_MIXED}",
    "float16": _HALF,
    "bfloat16": _BFLOAT,
    "float32": r"fp32|float32|full precision|single precision|32 ?bit|tf32",
    "region": r"autocast\w*|auto cast\w*",
    "apex": r"apex|o[123](?: trained)?|opt levels?",
    "lightning": r"(?:pytorch ?)?lightning\w*|fabric",
    "accelerate": r"accelerator\w*|accelerates?",
    "compiled": (
        r"torch ?compiled?|compile (?:and |with )?(?:amp|autocast|ddp|fsdp)|inductor|(?:torch)?dynamo|"
        r"aot ?(?:autograd|eager)|full ?graph|with compile|"
        r"compiled (?:the |a |my )?(?:model|graph|function|module|region|code|forward|version)|"
        r"compil(?:e|ing) (?:the |a |my )?(?:whole )?(?:model|network|module|forward)"
        r"|compile plus \w+|eager(?: mode)?(?! attention)|compil(?:e|ed|ing) and"
    ),
    # What it is a model of
    "batch norm": r"(?:\w*?|sync )batch ?norm\w*|(?:sync ?)?bn\d?",
    "running statistics": (
        r"(?:running|moving) (?:mean|var\w*|stat\w*|averages? of the (?:mean|var\w*))|track running stats|"
        r"(?:batch ?norm\w*|bn)(?: \w+){0,3} (?:stat\w*|buffers?|mean|variances?)"
        r"|running ?(?:stats?|means?|vars?|variance|statistics)|(?:bn|batch ?norm\w*) (?:\w+ ){0,3}(?:nan|inf|"
        r"corrupt\w*)"
    ),
    "extension": (
        r"(?:cuda|c) (?:extensions?|kernels?|ops?)|dcn(?:v\d)?|deform\w*|spconv|sparse ?conv\w*|mmcv|"
        r"(?:multi ?scale ?)?roi ?(?:align|pool)\w*|nms|tinycudann|tcnn"
        r"|extension|custom op\w*|deformable"
    ),
    # Numbers
    "nan": (
        r"(?<!no )(?<!not )(?<!without )(?:nans?|infs?(?! checks?))|infinit\w+|non ?finite|not finite|not a number|"
        r"(?:all |pure |completely )?black (?:images?|outputs?|results?|frames?|videos?|screen|squares?|backgrounds?|"
        r"pixels?|regions?|pictures?)|(?:images?|outputs?|results?|frames?|videos?|pictures?) (?:\w+ ){0,5}black"
        r"|nans\b|(?:is|are|becomes?|turns?|goes|got|get|gives?|returns?|shows?|see) (?:only |all )?(?:nan|inf)s?"
    ),
    "overflow": r"overflow\w*|out of range|65504",
    "underflow": r"underflow\w*|flush\w* to (?:zero|0)|round\w* to (?:zero|0)",
    "vanishing": r"vanish\w*",
    "zero": (
        r"0(?: 0+)?(?! \d)|(?<!by )zeros?(?! grad)|zeroed|1e \d+|\d+e (?:0[4-9]|1\d)|tiny|"
        r"(?:no|empty|zero) (?:detections?|predictions?|boxes|bboxes|masks?|labels?|results?)"
    ),
    "division by zero": (r"(?:division|divide[sd]?|dividing) by (?:zero|0)|zero ?division\w*|zero ?float ?division\w*"),
    "falling": (
        r"decreas\w*|falls?|falling|fell|drop\w*|collaps\w*|halv\w*|shrink\w*|(?:go|goes|going|gets?|down) "
        r"(?:down|to|towards?)|(?<!to )reduc\w*|declin\w*|smaller|minimum|lower\w*"
    ),
    "growing": (
        r"grow\w*|increas\w*|explod\w*|blow\w* up|goes up|going up|doubl\w+|rising|rises|larger and larger|bigger"
    ),
    "diverging": (
        r"diverg\w*|deconverg\w*|abnormal\w*|non ?monoton\w*|not monoton\w*|fluctuat\w*|bounc\w*|"
        r"erratic|unstable|instabilit\w*|spik\w*|explo\w*|blow\w* up|blew up|oscillat\w*|jump\w*|"
        r"(?:goes|going|shoots?) up"
        r"|peaks?|wild\w*|climb\w*|destabili\w*|noisy"
    ),
    # What they are numbers of
    # The loss is NaN, and not only gradients or a norm of which a text about a loss speaks.
    "loss itself": (
        r"loss(?:es)?(?: (?:is|are|has|have|was|were|always|also|been|becomes?|became|turns?|turned|goes|"
        r"going|to|at|as|all|"
        r"value|values|heatmap|itself|just|only))* (?:nans?|inf(?:inite)?)|(?:nan|infinite) loss(?:es)?"
    ),
    "loss": r"loss(?:es)?|costs?|objective|criterion",
    "gradients": r"(?<!no )grads?|gradients?|grad ?norms?",
    "norm": r"norms?|grad ?norms?",
    "outputs": (
        r"outputs?|latents?|logits?|activations?|forward(?: pass)?|features?|embeddings?|hidden states?|"
        r"attention(?: scores?)?|"
        r"softmax|layer ?norm|batch ?norm|images?|detections?|preds?|predictions?|boxes"
        r"|hidden ?states?|decod\w*|latents?|feature maps?|vae|intermediate|tensors?"
    ),
    "weights": r"weights?|params?|(?<!precision )parameters?",
    "scale": (
        r"(?:loss|grad|gradient|amp|dynamic|scaler|fp16 grad) scales?|get scale|scale values?|"
        r"values? of (?:the )?(?:grad)?scaler|scal(?:e|ing) factor|"
        r"scale(?: \w+)? (?:is|keeps?|goes|gets?|drops?|falls?|becomes?|reache[sd]|"
        r"(?:decreas|increas|halv|shrink|grow|doubl|collaps|explod)\w*)"
        r"|(?:grad ?scaler|scaler|amp) ?s? scale|scale of (?:the |my )?(?:grad ?)?scaler|attempted loss scale"
    ),
    "low scale": r"(?:scale|reducing(?! hysteresis)) (?:\w+ ){0,2}to (?:[0-8](?: \d+)?|\de \d+)(?! ?\d)",
    "scaler": rf"{_SCALER}|(?:loss|gradient) scaling",
    "quality": (
        r"accurac\w*|acc|top ?[15]|m?ap|ap50|m?iou|f1|bleu|rouge|wer|psnr|ssim|fid|metrics?|scores?|performances?|"
        r"results?|quality|perplexity|ppl|auc|dice|generali[sz]\w*|convergence"
        r"|eer|recall|precision and recall|ap|bleu|loss curves?|transcripts?|translations?|predictions are"
    ),
    # When and where
    "evaluation": (
        r"val|valid|validat\w*|eval\w*|tests?|tested|testing|testset|infer\w*|predict(?:s|ing|ion|ions)?|deploy\w*|"
        r"dev ?set"
    ),
    "inference": r"infer(?:ence|red|ring)?|deploy\w*|serving",
    "only in one mode": (
        r"only (?:\w+ )?(?:in |at |during |on |while |for )?(?:the )?(?:val\w*|eval\w*|test\w*|infer\w*)|"
        r"train\w*(?: \w+)? (?:\w+ )?(?:fine|ok|okay|normal\w*|good|well|works?|correct\w*|finite|perfect\w*)"
    ),
    "at once": (
        r"(?<!at )first|immediately|at once|right away|straight away|instantly|"
        r"from the (?:very )?(?:start|beginning|outset)|"
        r"(?:in|at) the (?:very )?(?:start|beginning)|beginning|(?:iteration|step|epoch|iter|batch) [01]"
    ),
    "later": (
        rf"after {_SOME}{_TIME}|later|suddenly|eventually|midway|halfway|in the middle|over time|at some point|late in|"
        rf"(?:for|within|around|about|at|every(?! time)|in) {_SOME}{_TIME}|{_TIME} (?:later|in)|epochs?|\d+k? {_TIME}|"
        r"randomly|sometimes|occasionally|long runs?"
    ),
    "resume": (
        r"resum\w*|restart\w*|reload\w*|continu\w+ (?:the )?(?:training )?from|warm ?start\w*|"
        r"(?:load|restor)\w* (?:a |an |the |from |my |old |saved |training )*(?:checkpoints?|ckpts?|state)"
        r"|restor\w*|re ?start\w*|continu\w*|reload\w*|re ?load\w*"
    ),
    "checkpoint": (r"checkpoints?|ckpts?|state ?dicts?|sav(?:e|es|ed|ing)|(?:model |file |weights? )+sizes?|on disk"),
    "affects": (
        r"affects?|influences?|impacts?|affecting|effect on|any harm|harmful|harms?"
        r"|(?:chang|influenc|alter|impact|affect)\w* (?:the |my |our |final )*(?:accuracy|results?|quality|"
        r"performance)|how much"
    ),
    "keep": r"keep\w*|stays?|remain\w*|work(?:s|ing)?|compatible",
    "from scratch": r"from scratch|random(?:ly)? initiali[sz]\w*|untrained",
    "found dtype": r"found dtype",
    "linear algebra": (
        r"linalg\w*|cholesky\w*|svd|qr decomposition|matrix (?:inverse|inversion|exponential)|eigh?|eigenvalues?|"
        r"pinv\w*|lstsq|slogdet|logdet"
        r"|inverse|inv|det|solve|eigh"
    ),
    "expanded": r"expand\w*|broadcast\w*",
    "embedding": r"embedding(?: layers?| outputs?)",
    "allowed": (
        r"(?:is it|is that|is this|are they) (?:\w+ )?(?:ok|okay|fine|wrong|bad|safe|allowed|correct|right)|ok to|"
        r"(?:should|can|may|must) (?:i|we|it|the|backward|optimizer)|where (?:do|should|to)|belongs?|"
        r"(?:inside|outside|within)"
        r"|supposed to|include|go(?:es)? in(?:to)?|part of|right place|belong\w*|correct order|under autocast"
    ),
    "tf32": r"tf32|allow tf32|tensorfloat\w*|float32 matmul precision",
    "size": r"(?<!batch )sizes?|as (?:large|big) as|disk|megabytes?|mb|gb",
    "checkpointing": (
        r"(?:gradient|activation|grad) checkpoint\w*|checkpointing|checkpointed|recomput\w*|use reentrant|"
        r"(?:utils|checkpoint) checkpoint"
    ),
    "again": r"twice|second time|two times|already|more than once",
    # What goes wrong
    "stuck": (
        rf"{_NOT}(?: \w+){{0,3}} {_CHANGE}\w*|flat|stuck(?! (?:forever|{_WAITS})\b)|"
        r"(?:stay\w*|remain\w*|keeps?|kept|nearly|almost) (?:\w+ )?constant|constant (?:loss|acc\w*)|"
        r"(?:loss|acc\w*|metrics?|weights?) (?:is|are|stays?|remains?) (?:\w+ )?(?:constant|fixed|"
        r"a fixed (?:number|value))|"
        r"stall\w*|plateau\w*|frozen|unchanged|at chance|"
        r"(?:stays?|remains?) at|(?:stay\w*|remain\w*|exactly|always|keeps?) (?:at )?(?:the )?same|"
        r"random (?:guess\w*|chance|level)|chance level|same (?:loss|value)"
        r"|barely|identical|bit identical|no movement|never (?:decreas|improv|chang|mov)\w*|froze"
    ),
    "not learning": (
        rf"{_NOT}(?: (?:even|really|ever|seems?|appears?|want|be|to|get|able|properly|actually|the|my|model|network))*"
        r" (?:learn|converg|train(?!er))\w*|"
        r"(?:struggl\w*|hard|difficult|trouble|problems?|slow) (?:to |in |with )?(?:converg|learn)\w*|"
        r"(?:bad|poor|terrible|no) (?:convergence|learning)|(?:issues?|problems?|trouble) with (?:the )?convergence|"
        r"convergence (?:issues?|problems?)"
    ),
    "worse": (
        r"worse|worst|lower|bad|badly|poor\w*|degrad\w*|hurt\w*|drop\w*|decreas\w*|gap|"
        r"(?<!all )(?<!to )reduc\w*(?! (?:scatter|dtype|precision))|declin\w*|inferior|"
        r"los[et]s?|losing|below|underperform\w*|deteriorat\w*|terrible|garbage|broken|fall\w*|less accurate|tank\w*|"
        r"collaps\w*|wrong|not as good|"
        r"(?:higher|larger|increased) (?:\w+ )?(?:loss|perplexity|error|wer|ppl)|"
        # Two numbers, one with and one without.
        r"\d+(?: \w+){0,5} (?:but|vs|versus|while|whereas|and|compared (?:to|with)|instead of|from|to)(?: \w+){0,5} \d+"
        r"(?: \w+){0,3} (?:without|with no|no|in|with|using|for) (?:\w+ ){0,2}(?:amp|autocast|fp32|float32|mixed|fp16)|"
        r"\d+(?: \w+){2,7} \d+ (?:\w+ ){0,1}without|from \d+(?: \d+)? to \d+"
        r"|banding|noise|artifacts?|jitter\w*|nonsense|gibberish|errors? in the (?:output|transcript)\w*|regress\w*"
    ),
    "clearly worse": (
        r"worse|higher loss|degrad\w*|hurt\w*|deteriorat\w*|underperform\w*|inferior|poor\w*|not as good"
    ),
    "worse in bfloat16": (
        rf"(?:{_BFLOAT})(?: (?!than|but)\w+){{0,8}} {_WORSE}|"
        rf"{_WORSE}(?: (?!than)\w+){{0,5}} (?:with|in|using|under|for|to) (?:pure )?(?:{_BFLOAT})"
    ),
    "different": (
        r"differ\w*|discrepanc\w*|not (?:the )?same|"
        r"(?:not|dont|doesnt) (?:\w+ ){0,3}(?:correct|right) (?:answers?|results?)|"
        r"inconsisten\w*|not equal|not reproducible|"
        r"(?<!type )(?<!types )(?<!precision )mismatch(?! (?:of|in) (?:d?types?|precision))"
    ),
    "large difference": (
        r"(?:significant\w*|dramatic\w*|drastic\w*|huge\w*|vast\w*|totally|completely|entirely|very|much|large|big) "
        r"(?:\w+ )?(?:differ\w*|discrepanc\w*|other)"
    ),
    "skipped": r"skip\w*",
    "always": (
        r"(?:every|each|all)(?: \w+){0,2} (?:steps?|iterations?|batch(?:es)?|times?|updates?)|keeps? (?:on )?skipping|"
        r"always|endless\w*|forever|never stops"
    ),
    "slow": (
        rf"slow\w*|(?:not|no|cannot|cant|never|hardly|isnt|without|doesnt|dont|any|zero|little)(?: \w+){{0,4}} {_FAST}|"
        r"same (?:\w+ )?(?:speed|time|throughput)|"
        r"(?:lower|less|worse|reduced) (?:\w+ )?(?:speed|throughput|fps)|(?:speed|throughput) (?:(?:is|"
        r"was|gets|becomes|much|even|a lot|far|significantly) )*(?:lower|"
        r"worse|reduced|drops|dropped|"
        r"decreas\w*|halved)|"
        r"times? (?:(?:is|are|was|were|stays?|remains?|also|almost|nearly|about) )*(?:the )?(?:same|equal|identical)|"
        r"takes? forever|"
        r"speed (?:is |stays )?(?:the )?(?:same|unchanged)|"
        r"(?:time|times|duration) (?:\w+ ){0,2}(?:doubl|increas|higher|twice)\w*|"
        r"takes? (?:\w+ )?(?:more|longer)|(?:twice|times) as long|(?<!no )longer(?! (?:than )?\d|"
        r"\w* (?:sequences?|inputs?))|throughput|"
        r"(?:failure|lack|loss) of (?:\w+ ){0,4}(?:acceleration|speed ?ups?)"
        r"|latency|(?:it|iters?|iterations?|images?|imgs?|samples?|steps?|tokens?) (?:per |"
        r"a )?s(?:ec(?:onds?)?)?\b|\d+ ?(?:ms|secs?|seconds?|minutes?|mins?)\b|benchmark\w*|tensor ?cores?|"
        r"wall clock|(?:doubles?|halves) (?:the )?(?:time|speed)"
    ),
    "hangs": rf"hang(?:s|ing)?|freezes|stuck forever|deadlock\w*|stuck {_WAITS}",
    "memory": r"memory(?! (?:access|address|format|efficient attention))|vram|oom",
    "host memory": r"(?:system|cpu|host|main) (?:memory|ram)|(?<!v)ram",
    "no effect": (
        r"no effect|any effect|no impact(?! on)|ineffective|(?:does|do) nothing|(?:not|doesnt|didnt|"
        r"dont) do anything|no difference|"
        r"nothing happens|not working|(?:doesnt|not|isnt) work\w*|ignored?|"
        r"(?:not|isnt|arent|never) (?:being )?(?:applied|used|enabled|active|cast\w*|convert\w*|entered)|"
        r"(?:still|stays?|remains?|returns?|are|is) (?:in |use[sd]? |being )?(?:computed in |running in |all )?"
        r"(?:fp32|float32|full precision)|no change|makes no difference|seems? (?:to be )?(?:off|disabled)|"
        r"(?:not|never|doesnt|dont|didnt|wont) (?:\w+ )?"
        rf"(?:return|produc|giv|output|becom|transform|convert|cast|turn|hav)\w*(?: \w+){{0,4}} (?:{_HALF}|{_BFLOAT})|"
        rf"(?:is not|are not|isnt|arent|wasnt) (?:in |of type |of dtype |a |torch )*(?:{_HALF}|{_BFLOAT})"
        r"|(?:really|actually) (?:used|working|active)|(?:verify|check|confirm|know|tell|see) (?:that |if |"
        r"whether )?(?:amp|autocast|mixed precision|fp16|it)(?: \w+){0,2} (?:works?|working|used|active|on|"
        r"enabled)|not? (?:activated|in use)|had no"
    ),
    "float16 for bfloat16": (
        r"(?:bf16|bfloat16)(?: \w+){0,8} backward(?: \w+){0,3} (?:in|as|with|uses?|computes?) (?:fp16|float16|half)|"
        r"(?:bf16|bfloat16)(?: \w+){0,14} (?:cast\w*|convert\w*|downcast\w*|conver\w*)(?: down)? (?:in)?to "
        r"(?:torch )?(?:fp16|float16|half)|"
        r"(?:uses?|using|returns?|comput\w+|runs?|is|are|still|stays?|always|defaults? to|gives?)(?: \w+){0,3} "
        r"(?:fp16|float16|half)(?: \w+){0,3} (?:although|though|even|instead of|but|despite|inside|in|under|when|while)"
        r"(?: \w+){0,6} (?:bf16|bfloat16)|(?:fp16|float16|half) (?:in place of|instead of|and not) (?:bf16|bfloat16)"
    ),
    "fast path": r"transformer ?encoder\w*|multi ?head ?attention|mha|fast ?path",
    "fails": r"notimplementederror|fails?|failed|raises?|crash\w*|errors?|breaks?|exception",
    "is half": (
        rf"(?<!not )(?<!doesnt )(?<!dont )(?<!isnt )(?<!arent )(?<!never )"
        rf"(?:(?:is|are)(?: (?!with|in|when|using|under|after|for|and|but|not|never|should\w*|supposed|expected)\w+)"
        rf"{{0,5}}|"
        r"becomes?|returns?|gives?|stays?|remains?|still) "
        rf"(?:a |of |type |torch )*(?:{_HALF}|{_BFLOAT})"
    ),
    "is float32": (
        r"(?:is|are|still|stays?|remains?|returns?|becomes?|gets?|gives?|have|has|being|always|in|dtype)"
        r"(?: (?:still|always|all|kept|stored|computed|returned|in|of|type|dtype|torch|being|as|be|actually|only))* "
        r"(?:fp32|float32|(?:full|single) precision|32 bit)(?: fp32| float32)?(?: (?:which|shouldnt|why|"
        r"is this|despite|even|although|though|under|with|inside|in|within|when|"
        r"while|instead of|not|but|after|and|tensors?)|  |$)|"
        r"(?:gradients?|grads?|weights?|param(?:eter)?s?|loss|outputs?|states?|norm|softmax) "
        r"(?:fp32|float32)(?: (?:despite|even|under|with|inside|in|when|while)|  |$)"
    ),
    "float32 op": r"softmax|(?:layer|group|rms) ?norms?|cross ?entropy|cumsum|sums?",
    "other dtype": (
        r"(?:not|doesnt|didnt|dont) (?:respect|follow|use|honou?r|obey|match)\w* (?:the )?(?:autocast )?d?types?|"
        r"ignor\w+ (?:the )?(?:autocast )?d?types?|"
        r"(?:wrong|different|other|unexpected|incorrect) (?:output |result )?d?types?|d?types? (?:is |are )?(?:wrong|"
        r"different|incorrect|unexpected|differs?)|(?:fp32|float32|float|fp16|float16|half|bf16|bfloat16) instead of "
        r"(?:fp32|float32|float|fp16|float16|half|bf16|bfloat16)"
    ),
    "positional": (
        r"(?:second|2nd|positional) (?:\w+ )?(?:arguments?|parameters?)|"
        r"order of (?:the )?(?:\w+ )?(?:arguments?|parameters?)"
    ),
    "dtype mismatch": (
        r"expect\w* (?:\w+ )?(?:floats?|float32|half|fp16|fp32|float16)(?: \w+){0,4} (?:receiv\w*|gets?|got|given)|"
        r"d?types? (?:mismatch\w*|errors?)|mismatch\w* (?:of |in )?(?:d?types?|precision)|different d?types?|"
        r"half and float|float and half|same dtype|(?:expected|found) (?:scalar type )?(?:half|float)"
    ),
    "unsupported": (
        r"(?:cant|cannot|unable to) (?:be )?(?:use|enabl|run|appl|activat)\w*|not support\w+|unsupported|"
        r"supports?"
    ),
    "missing": r"install\w*|import\w*|modules?|not found|replac\w*|migrat\w*|instead of",
    "deprecated": r"deprecat\w*|futurewarning",
    # Parts of a program
    "clip": (r"clip\w*(?! (?:load|models?|vit|rn50|encoders?|loss|image|text|vision)\b)(?<!openai clip)"),
    "backward": r"backwards?|backprop\w*",
    "unscale": r"unscal\w*",
    "accumulate": r"accumulat\w*|accum|micro ?batch\w*",
    "scheduler": r"schedulers?|lr ?schedul\w*|learning rate schedul\w*|onecyclelr|lambdalr|cosine ?annealing\w*",
    "several": (
        r"for (?:each|every|all) optimi[sz]ers?(?! steps?)|"
        r"(?:two|multiple|several|2|3|three|many|both|different) (?:\w+ )?(?:optimi[sz]ers?|losses|scalers|backwards?|"
        rf"networks|models)|{_GAN}"
        r"|(?:actor|policy|encoder|generator) (?:\w+ )?and (?:\w+ )?(?:critic|value|decoder|discriminator)|"
        r"per optimizer|each optimizer|optimizers|multiple (?:networks|models|scalers)"
    ),
    "gan": _GAN,
    "fused": r"fused(?:adamw?)?",
    "ctc": r"ctc(?:loss)?",
    "penalty": (
        r"(?:gradient|grad) penalt\w*|wgan gp|double (?:backward|backprop\w*)|"
        r"(?:second|higher|2nd) (?:order|derivatives?)|create graph|"
        r"r1 regulari\w*|autograd grad|hessians?|jacobians?|grad(?:ients?)? of (?:the )?grad(?:ients?)?"
        r"|r1|path length|penalt\w*|second (?:order|derivative)\w*|autograd\.grad"
    ),
    "no grad": r"no ?grad|inference ?mode|without grad(?:ients?)?",
    "bad data": (
        rf"{_DATA}(?: \w+){{0,4}} (?:contain\w*|has|have|with|includ\w*)(?: \w+){{0,2}} (?:nans?|infs?|infinit\w+)|"
        rf"(?:nans?|infs?)(?: values?)? in (?:the |my |our |some |input |training )*{_DATA}|"
        r"(?:corrupt\w*|missing|bad|invalid) (?:values?|data|samples?|batch(?:es)?|labels?|pixels?)"
    ),
    "float32 instead": (
        r"\b(?:only|using|use[sd]?|change\w*|switch\w*|train\w*|run\w*)(?: \w+){0,2} (?:fp32|float32|full precision) "
        rf"(?:instead of|rather than|in place of|and not) (?:{_BFLOAT}|fp16|float16|half|amp|mixed)"
    ),
    "in float32 too": (
        r"(?:both|whether|either|also|even|regardless)(?: \w+){0,3} (?:fp32|float32|full precision)|"
        r"(?:fp32|float32|full precision) (?:or|and|as well as) (?:fp16|float16|bf16|bfloat16|amp|half)|"
        r"(?:fp16|float16|bf16|bfloat16|amp|half) (?:or|and|as well as) (?:fp32|float32)"
    ),
    "buffers": r"buffers?(?: d?types?)?",
    "data loading": (
        r"auto ?augment\w*|augmentations?|data ?load\w*|num workers|preprocessing"
        r"|dataset|transforms?|workers?|pipeline"
    ),
    "inaccurate": (
        r"(?:numeric\w*|rounding|round off) (?:errors?|issues?|problems?|differences?)|precision errors?|"
        r"inaccura\w*|imprecis\w*|"
        r"not accurate|not precise|stop(?:s|ped)? (?:growing|increasing)|"
        r"(?:sums?|averages?|means?) (?:of )?(?:\w+ ){0,5}(?:is |are )?(?:wrong|incorrect|off)|"
        r"(?:large|big|huge) errors?|los(?:es?|ing|t) precision"
        r"|round(?:ed|ing|s)|imprecis\w*|shift(?:s|ed)|way off|digits?|drifts?|duplicates|(?:off|wrong) by (?:a |"
        r"one |few |some |\d+ )+pixels?"
    ),
    "threads": (
        r"data ?parallel|dataparallel|threads?|threading|threadpool\w*"
        r"|replicas?|multi ?gpu|several gpus|\d gpus"
    ),
    "fsdp": (
        r"fsdp\d?s?|fully shard|sharded"
        r"|fully ?sharded\w*"
    ),
    "fsdp2": r"fsdp2|fsdp v?2|fully shard",
    "enable": r"enabl\w*|turn(?:ing)? on|use|using|run|running|apply",
    "needed": (
        r"how (?:to|can i) (?:use|enable|apply|run|do)|"
        r"need\w*|necessary|required|should (?:i|we|it)|have to|must (?:i|we)|do (?:i|we)|useful"
        r"|(?:do|does|is|are|should|must|can|could|may) (?:i|we|it|this|that|they|one) (?:\w+ ){0,3}(?:need\w*|use"
        r"|call|wrap|keep|put|have|required|also|still|be)|still have to|when (?:should|do|to|are|is)|where (?:to|"
        r"do|does|should|is)|useful|recommended"
    ),
    "inf check": r"(?:no|not|without|missing) (?:\w+ )?inf checks?|inf checks? (?:\w+ ){0,2}(?:not|missing)",
    "update": r"updat\w*",
    "optimizer": r"optimi[sz]er|adamw?|sgd",
    "step": r"steps?|stepping|stepped",
    "bce": r"bce\w*|binary cross ?entropy",
    "sam": (
        r"sharpness ?aware\w*|[af]?sam (?:optimi[sz]er|with (?:\w+ ){0,3}(?:gradscaler|grad scaler|scaler))|"
        r"optimi[sz]er sam"
        r"|sam optimi[sz]er|first step and second step|asam|sharpness"
    ),
    "closure": r"lbfgs|closures?",
    "custom function": (
        r"custom ?(?:autograd )?(?:functions?|ops?|operators?)|custom (?:fwd|bwd|forward|backward)|"
        r"autograd functions?|custom (?:cuda )?(?:kernel|op|extension)s?"
        r"|autograd ?functions?|my (?:own )?functions?|custom_?(?:fwd|bwd)|library (?:custom )?ops?|triton|"
        r"some ?func\w*|function apply"
    ),
    "fft": r"fft|r?fft\w*|stft|spectrograms?|fourier",
    "inputs": r"inputs?|batch(?:es)?|tensors?",
    "numpy": r"numpy",
    "mask": r"masks?(?! (?:r ?cnn|rcnn|heads?|loss|branch|former)\b)|masked|masking|1e9|1e 9|masked fill",
    "epsilon": (
        r"eps|epsilons?|1e 8|1e 12"
        r"|1e (?:6|7|10|20)|tiny eps|divid\w* by"
    ),
    "flash attention": (r"flash ?attn\w*|flash ?attention\w*|memory efficient attention|xformers|sage ?attention\w*"),
    "average": (
        r"ema\w*(?! (?:buffers?|states?))|exponential moving averages?|"
        r"moving averages? of (?:the )?(?:model|weights|param\w*)|"
        r"averaged? (?:model|weights)|swa"
        r"|averaged weights|(?:teacher|momentum) (?:encoder|model|network)"
    ),
    "scripted": r"torch ?script\w*|(?:jit|torch) script\w*|script ?(?:modules?|functions?|mode)|scripted",
    "functorch": r"functorch|vmap|torch func|jvp|vjp|linearize",
    "cast inside": (
        r"(?:cast\w*|conver\w*|upcast\w*|promot\w*)(?: \w+){0,3} (?:to |into )?(?:torch )?(?:float32|fp32|float)|"
        r"(?:no|not|without)(?: \w+)? (?:conversion|converted|cast|casting) back|rotary|rope|"
        r"time ?steps? embeddings?|time embed\w*"
    ),
    # What is said to be so already, so that it is no answer.
    "does already": (
        r"(?:i|we) (?:do|did|put|have|am|use|used|set|call|called|unscale|clip|added|add|tried|made sure|"
        r"checked|am using)|"
        r"already|even (?:with|after|though|if)|despite|although|no matter|no effect|did not help|"
        r"doesnt help|didnt help"
    ),
    "sync gradients": r"sync gradients?",
    "manual optimization": (
        r"manual (?:optimi[sz]ation|backward|opt)|automatic optimi[sz]ation(?: \w+){0,2} false|manual_backward|"
        r"(?:automatic to|from automatic) manual"
    ),
    # Loaders that give weights in half without being asked.
    "loaded in half": (
        r"clip load(?: \w+)*|openai clip|"
        r"d?type (?:\w+ )?auto|(?:load\w*|from pretrained)(?: \w+){0,6} (?:in |as |d?type |"
        r"torch )+(?:fp16|float16|half)"
        r"|torch dtype|dtype (?:torch )?(?:float16|half|bfloat16|fp16|bf16)|load(?:ed|ing|s)? (?:\w+ ){0,4}(?:fp16"
        r"|float16|half|bf16|bfloat16)"
    ),
    "manual cast": (
        r"(?:with|using|use[ds]?|passed|pass|set) half(?! precision)|half (?:as (?:an )?argument|flag|option|true)|"
        r"(?:model|net|network|everything|weights) (?:to )?(?:half|bfloat16|float16|bf16|fp16)|model half|half model|"
        r"model (?:has|is|are|in|with)(?: (?:a|in|the|dtype|already|itself))* (?:fp16|bf16|half|float16|"
        r"bfloat16)(?! mixed)|"
        r"(?:fp16|bf16|half|float16|bfloat16) (?:weights|params|parameters)|"
        r"pure (?:fp16|bf16|half|float16|bfloat16)|to torch (?:bfloat16|float16|half)|"
        r"(?:cast|convert)\w* (?:the |my |whole |all |its )*(?:model|weights|everything|params|parameters|network)"
        r"|(?:all|half|fp16|float16|bf16|bfloat16|the|its|whole) (?:the )?(?:weights|parameters|params|"
        r"model) (?:are |is )?(?:all )?(?:in |to |kept in |stored in |loaded in )?(?:half|fp16|float16|bf16|"
        r"bfloat16)|(?:net|model|encoder|input|inputs|images?) half|half (?:model|net|network|weights)|"
        r"full (?:fp16|bf16|half)"
    ),
    "scaled": (
        r"huge|enormous|\d+e[4-9]|(?:very|extremely|abnormally|unusually|insanely) (?:large|big|high)|"
        r"(?:too|way|far|times) (?:\w+ )?(?:large|big|high)\w*"
    ),
    "65536": r"65536x?|65 536|65k|2 16 times",
    "pretrained": (
        r"t5|flan\w*|u?mt5|gemma\d?|chatglm\w*|glm\d?|qwen\w*|llama\w*|mistral\w*|mixtral|falcon|deepseek\w*|phi\d?|"
        r"internlm\w*|baichuan\w*|trained (?:\w+ )?in (?:bf16|bfloat16)|bf16 (?:weights|checkpoints?|model)|"
        r"pre ?trained"
        r"|(?:released|trained|pre ?trained|published) (?:\w+ ){0,2}(?:in|with) (?:bf16|bfloat16)|base model|"
        r"foundation model|fine ?tun\w*|lora\w*|qlora|llms?|language models?"
    ),
    # What the program does at that time, and what is asked
    "training": r"train\w*|fine ?tun\w*|epochs?|iterations?|backward",
    "needs no change": (
        r"is (?:this|that|it) (?:a )?(?:bug|normal|expected|ok\w*|fine|harmful|intended|problem|right|correct)|"
        r"normal\w*|"
        r"expected|worry|concerned|harmless|intended|should (?:i|we) (?:worry|care)|does (?:this|it) matter"
    ),
    "calls the step": r"(?:optimizer|optim|opt) step|scaler step|calls? (?:optimizer|step)",
    "never called": (
        r"(?:never|not|isnt|nowhere|missing|without)(?: \w+){0,3} (?:call\w*|execut\w*|found|find|see\w*)|"
        r"(?:could|can|did) ?not find|cannot find|couldnt find|who calls|replaces?|missing"
    ),
    "long input": (
        r"long\w* (?:sequences?|inputs?|samples?|context\w*|texts?|images?)|large (?:images?|inputs?|values?)|(?:input"
        r"|sequence) length"
    ),
    "skipped or first": (
        r"first (?:few |couple of |several |some )?(?:steps?|iterations?|batches|updates?)|(?:at|in) the (?:start|"
        r"beginning)"
    ),
    "back to normal": (
        r"(?:then|later|after\w*) (?:\w+ ){0,4}(?:normal|fine|finite|ok|recover\w*|stable)|normal values?|recovers?"
    ),
    "convolution": r"conv\w*|conv[123]d|depthwise|u ?net",
    "recurrent": r"[gb]?lstm\w*|gru\w*|rnn\w*",
    "transformer": r"transformers?|attention|bert|gpt\w*|vit|llms?",
    "image": r"images?|pictures?|photos?|video\w*|frames?",
    "old release": r"old(?:er)? (?:version|release|torch|pytorch)|1 [4-9](?: \d)?",
    "fast elsewhere": r"ampere|a100|a10|h100|30[6789]0\w*|40[6789]0\w*|a[456]000",
    "slow half": r"p100|p40|pascal|maxwell|10[5678]0\w*|titan xp?|k80|m60",
    "frozen": r"fr[eo]ez\w*|frozen|unfre[eo]z\w*|unfrozen|requires ?grad_? false",
    "adapters": r"q?lora\w*|adapters?|peft|quantization bit",
    "decorated": r"decorat\w*|forward method|to (?:the |my |its )?forward|(?:layer|module) (?:directly |right )?after",
    "another type": r"found param(?: \w+)* type",
    # Devices
    "gtx 16": (
        r"gtx ?16\w*|(?:geforce|nvidia|card|gpu) 16[356]0\w*|16[56]0(?: ?(?:ti|super|max ?q|mobile|cards?|gpus?)|s)"
    ),
    "cpu": (
        r"cpus?"
        r"|processors?|ryzen|xeon|epyc|(?:no|without|lacks?) (?:an? |any )?gpus?|core i\d|intel (?:laptop|cpus?)"
    ),
    "gpu": r"gpus?|cuda|v100|t4|p100|p40|20[678]0\w*|10[678]0\w*|1660\w*|turing|volta|pascal|cards?",
    "mps": r"mps|apple(?: silicon)?|m[1-4](?: max| pro| ultra)?|macbook|mac|metal",
    "other accelerator": r"xpu|intel (?:gpu|arc)|arc gpu|npu|ascend|hpu|gaudi",
    "another device": (
        r"(?:another|other|different) (?:gpu|device|machine|card|hardware|server)|"
        r"(?:v100|t4|p100|2080\w*|1080\w*|a100|h100|3090|4090|a6000)s?(?: \w+){0,6} (?:but|vs|while|than|though)"
        r"(?: \w+){0,6} (?:v100|t4|p100|2080\w*|1080\w*|a100|h100|3090|4090|a6000)"
    ),
}
_EXPRESSIONS = {name: re.compile(rf"\b(?:{words})\b") for name, words in _CONCEPTS.items()}
# What amplint knows nothing of: other frameworks, and other ways to make a model small.
_ELSEWHERE = re.compile(
    r"\b(?:tensorflow\w*|tf|tf cnn \w+|set floatx|mixed float16|set global policy|"
    r"keras|jax|flax|optax|mxnet|paddle\w*|mindspore|oneflow|coreml|openvino|"
    r"motion priors?|isaac ?(?:gym|sim|lab)|amp (?:robots?|agents?|humanoids?)|tpus?|xla|vllm|llama ?cpp|ggml|rust|"
    r"dfdx|cudahalf|int8|int4|[1248] ?bit|gptq|awq|gguf|fp8|float8|fp4|nvfp4|quanti[sz]\w*|sklearn|xgboost)\b"
)
# What a question about half precision speaks of.
_HALF_PRECISION = frozenset(
    {"amp", "manual cast", "dtype mismatch", "is half", "overflow", "underflow", "65536", "scale", "unscale"}
    | {"inf check", "fused", "gtx 16", "loaded in half"}
)
# What programs print of their settings and of numbers that are all right; a best loss begins at infinity.
_SETTING = re.compile(
    r"""["']?\b(?!precision\b|\w*loss=0(?:\.0+)?(?![\d.]))[\w.]+["']?(?:=\s*[-+]?(?:\d[\w.+-]*|inf\b)|"""
    r""":\s*[-+]?(?:0\.\d*[1-9]|[1-9])[\d.e+-]*)|["']\w+["']: *\S+"""
)
_AT_THE_START = re.compile(
    r"\b(?:best|min|minimum|lowest|smallest|prev|previous)(?:[ _]\w+){0,2}[ _]loss\W{0,3}(?:is |of |at )?inf\w*|"
    r"\bfrom inf\b",
    re.IGNORECASE,
)
_APOSTROPHES = str.maketrans("", "", "'\u2019`\u00b4")
_APART = re.compile(r"[^a-z0-9.]+|\.(?!\d)|(?<!\d)\.")
# A release of something, and what is lost where no loss is meant.
_RELEASE = re.compile(
    r"\b(?:(?:py)?torch|cuda|cudnn|python|lightning|transformers|accelerate|deepspeed|version)"
    r"[ =v]*\d+(?!\d*-(?:mixed|true))(?:\.\d+)*[^\s/]*|"
    r"\bv?\d+\.\d+\.[\d*]+[^\s/]*|\bv\d+\.\d+[^\s/]*",
    re.IGNORECASE,
)
_LOST = re.compile(
    r"\b(?:performance|accuracy|quality|metric) loss(?:es)?\b|\bloss (?:of|in) (?:\w+ )?"
    r"(?:performance|accuracy|precision|quality)\b",
    re.IGNORECASE,
)
# What is as it should be, or is said of float32 only: no complaint about AMP.
_NO_COMPLAINT = re.compile(
    r"\bmemory(?: (?:usage|consumption|use|footprint))? (?:is|was|gets|becomes) "
    r"(?:only |just |about |roughly |nearly |almost )*"
    r"(?:half|halved|lower|less|reduced|smaller|fine|ok)\b(?! than i expect)|"
    r"\bmemory (?:does |do |is |was |really )*sav(?:e|es|ed)\b|\bsav(?:e|es|ed|"
    r"ing) (?:\w+ ){0,3}memory(?=[^.]{0,12}\bbut\b)|"
    r"\b(?:less|half the|half of the) (?:gpu )?memory\b(?=[^.]{0,40}\b(?:but|slower|longer)\b)|"
    r"\b(?:fp32|float32|full precision)(?: (?!fp16|float16|bf16|amp)\w+){0,4},? (?:but|and|although) "
    r"(?:is |it is |it's |runs )?(?:very |too |much |really )?slow\w*",
    re.IGNORECASE,
)
# What was tried and did not help.
_TRIED = re.compile(
    r"\b(?:i|we)(?:'ve| have| had| also)* (?:tried|set|changed|increased|decreased|lowered|raised|used|added|reduced|"
    r"switched)\b[^.;\n]{0,80}?\b(?:no difference|no effect|no change|(?:did|does)(?: not|"
    r"n't) (?:help|work|change|fix)|"
    r"without success|no help)\b",
    re.IGNORECASE,
)
# Learning rates, which are no epsilons.
_RATE = re.compile(r"\b(?:lr|learning[ _]rate)(?: \w+){0,3}?[ =:]+[-+]?[\d.]+(?:e[-+]?\d+)?", re.IGNORECASE)
# Words that are written in two ways.
_ONE_WORD = re.compile(r"\b(bf|fp|float|bfloat|b float|grad|data|check) (16|32|scaler|parallel|point)(?=s?\b)")


class Asked(NamedTuple):
    """What a question is about that has all the concepts `wanted`, and none of the `unwanted`."""

    wanted: frozenset[str]
    unwanted: frozenset[str]

    def fits(self, concepts: Collection[str]) -> bool:
        """Whether it asks about just that."""
        return self.wanted <= set(concepts) and self.unwanted.isdisjoint(concepts)


def asked(text: str) -> Asked:
    """What a table says of a question, as in `nan & loss & !evaluation`."""
    names = [each.strip() for each in text.split("&")]
    unwanted = frozenset(each[1:] for each in names if each.startswith("!"))
    wanted = frozenset(each for each in names if not each.startswith("!"))
    if unknown := (wanted | unwanted) - _CONCEPTS.keys():
        raise ValueError(f"{text}: no concept {', '.join(sorted(unknown))}")
    return Asked(wanted, unwanted)


def is_elsewhere(text: str) -> bool:
    """Whether a question is about another framework, of which amplint knows nothing."""
    return bool(_ELSEWHERE.search(normalized(text)))


def is_without_amp(concepts: Collection[str]) -> bool:
    """Whether a question says nothing of half precision."""
    return _HALF_PRECISION.isdisjoint(concepts)


def concepts_of(text: str) -> frozenset[str]:
    """The concepts that a question speaks of."""
    said = _LOST.sub(
        " accuracy drops ", _RATE.sub(" lr ", _TRIED.sub(" ", _NO_COMPLAINT.sub(" ", _RELEASE.sub(" ", text))))
    )
    words = normalized(_AT_THE_START.sub(" ", _SETTING.sub(" ", said)))
    return frozenset(name for name, expression in _EXPRESSIONS.items() if expression.search(words))


def normalized(text: str) -> str:
    """A question in lower case and in English words, without punctuation, and `fp 16` as `fp16`."""
    words = _APART.sub(" ", english(text).translate(_APOSTROPHES)).replace(".", " ")
    return _ONE_WORD.sub(r"\1\2", words).strip()
