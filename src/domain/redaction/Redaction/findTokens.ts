import { isFiller, isPlaceholder } from "./isPlaceholder.ts"
import { isDrawn, looksRandom } from "./looksRandom.ts"
import { secretKinds } from "./secretKinds.ts"
import type { Grammar } from "./secretKinds/SecretKind.ts"
import { hasSteps } from "./steps.ts"
import type { TextRange } from "./TextRange.ts"
import type { TextScan } from "./TextScan.ts"

interface TokenForm {
  readonly name: string
  /** A text must contain one of these literals, in any case; empty: none is needed. */
  readonly words: ReadonlyArray<string>
  /** Length of the longest run of letters, digits, `_` and `-` that a text must at least have. */
  readonly minWord: number
  /** Linear: each part is one bounded run, and a match begins only at the start of a run. The first group, if any, is the secret. */
  readonly form: RegExp
  /** Whether a match is a secret: by default unless it is a placeholder. */
  readonly isSecret: (secret: string, match: RegExpExecArray) => boolean
}

/** The longest literal of a form, if it has at least two characters. */
const markOf = ({ parts }: Grammar): ReadonlyArray<string> =>
  parts
    .flatMap((part) => ("literal" in part && part.literal.length > 1 ? [part.literal.toLowerCase()] : []))
    .toSorted((left, right) => right.length - left.length)
    .slice(0, 1)

/** Minimum length of the longest run of letters, digits, `_` and `-` in a form. */
const wordOf = ({ parts }: Grammar): number => {
  let longest = 0
  let run = 0
  for (const part of parts) {
    const isWord = /^[\w-]+$/.test("literal" in part ? part.literal : part.alphabet)
    run = isWord ? run + ("literal" in part ? part.literal.length : part.min) : 0
    longest = Math.max(longest, run)
  }
  return longest
}

/** Kinds without a prefix, each as one expression: a mark in the middle or at the end, or only their form. */
const markedKinds: ReadonlyArray<TokenForm> = secretKinds
  .filter(({ prefixes }) => prefixes.length === 0)
  .map(({ grammars, vendor }) => {
    const marks = grammars.map(markOf)
    const nats = grammars.flatMap((grammar) => grammar.nats)
    return {
      name: vendor,
      words: marks.some(({ length }) => length === 0) ? [] : [...new Set(marks.flat())],
      minWord: Math.min(...grammars.map(wordOf)),
      form: new RegExp(`(${grammars.map(({ form }) => form.source).join("|")})`, "g"),
      isSecret: (secret, match) => isDrawn(match.slice(2), nats) && !isFiller(secret)
    }
  })

const form = (
  name: string,
  needs: ReadonlyArray<string> | Pick<TokenForm, "words" | "minWord">,
  pattern: RegExp,
  isSecret: (secret: string) => boolean = (secret) => !isPlaceholder(secret)
): TokenForm => ({
  name,
  ...("words" in needs ? needs : { words: needs, minWord: 0 }),
  form: pattern,
  isSecret
})

/** Values that their surroundings mark, such as the path of a URL. */
export const contextForms: ReadonlyArray<TokenForm> = [
  // Marks in the middle or at the end
  form(
    "Azure storage key after its name",
    ["=="],
    /(?:[Kk]ey|KEY|[Ss]ecret|SECRET)["'`]{0,2}[ \t]{0,3}[:=]{1,2}[ \t]{0,3}["'`]?([0-9A-Za-z+/]{86}==)/g
  ),
  form(
    "Google OAuth client",
    [".apps.googleusercontent.com"],
    /:([0-9A-Za-z_-]{24})@[0-9]+-[0-9a-z]+\.apps\.googleusercontent\.com/g
  ),
  form(
    "Z.ai or Ollama",
    { words: ["zai", "z.ai", "ollama", "glm", "bigmodel"], minWord: 32 },
    /(?<![0-9A-Za-z])[0-9a-f]{32}\.(?=[0-9A-Za-z]{0,23}[0-9])(?=[0-9A-Za-z]{0,23}[A-Z])(?=[0-9A-Za-z]{0,23}[a-z])[0-9A-Za-z]{16,24}(?![0-9A-Za-z])/g
  ),
  form(
    "Jira or Confluence data centre",
    { words: ["jira", "confluence", "bitbucket", "atlassian", "bearer"], minWord: 12 },
    // Base64 of twelve digits, a colon and 20 bytes.
    /(?<![0-9A-Za-z+/])(?:[MNO][DTjz][A-Za-z0-9][wxyz0-5]){4}O[g-v][0-9A-Za-z+/]{26}(?![0-9A-Za-z+/=])/g
  ),
  form(
    "private key without armour",
    ["mii"],
    // DER of a version and a modulus (PKCS 1), or of an algorithm (PKCS 8).
    /(?<![0-9A-Za-z+/])MII[A-J][0-9A-Za-z+/]{2}I(?:BAA|BADAN)[0-9A-Za-z+/]{100,8192}={0,2}/g
  ),
  form(
    "ThingsBoard device",
    ["/telemetry", "/attributes", "/rpc"],
    /\/api\/v1\/([0-9A-Za-z]{20})\/(?:telemetry|attributes|rpc)\b/g
  ),
  form("Maven master password", ["<master>"], /<master>\s{0,8}\{([^<>{}\s]{16,512})\}\s{0,8}<\/master>/g),
  form("Kagi", ["kagi"], /\bkagi\b[^\n]{0,24}?[ \t:="']([0-9A-Za-z_-]{11}\.[0-9A-Za-z_-]{43})/gi),
  form(
    "Figma legacy",
    ["figma"],
    /figma\b[^\n]{0,24}?[ \t:="']([0-9a-f]{4,6}-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})/gi
  ),
  form("Segment", ["segment"], /\bsegment\b[^\n]{0,24}?[ \t:="']([0-9A-Za-z_-]{43}\.[0-9A-Za-z_-]{43})/gi),
  form(
    "Convex deploy key",
    ["|"],
    /\b(?:prod|dev|preview|project):[0-9a-z-]{3,60}(?::[0-9a-z-]{1,60})?\|[0-9A-Za-z+/=_-]{40,400}/g
  ),
  form("Fly.io header", ["flyv1"], /FlyV1[ \t]([0-9A-Za-z+/=_,-]{60,2048})/g),
  form("Laravel Sanctum", ["|"], /\bBearer[ \t]([0-9]{1,9}\|[0-9A-Za-z]{40,60})/g),
  form("Laravel key", ["base64:"], /[:=>"' \t](base64:[0-9A-Za-z+/]{40,90}={0,2})/g),
  form(
    "Sidekiq",
    ["contribsys"],
    /CONTRIBSYS__COM\w{0,16}["']?[ \t]{0,2}[=:]{1,4}[ \t]{0,2}["']?([0-9a-f]{8}:[0-9a-f]{8})|https?:\/\/([0-9a-f]{8}:[0-9a-f]{8})@\w{1,32}\.contribsys\.com/gi
  ),
  form(
    "Service account key id of Google",
    ["private_key_id"],
    /"private_key_id"\s{0,4}:\s{0,4}"([0-9a-f]{40})"/g
  ),
  form("JSON web key", ['"kty"'], /"(?:d|p|q|dp|dq|qi|k)"\s{0,4}:\s{0,4}"([0-9A-Za-z_-]{16,1024})"/g),
  form(
    "private key of a wallet",
    { words: ["priv", "secret", "mnemonic", "wallet", "signer", "deployer"], minWord: 64 },
    /(?:priv|secret|mnemonic|wallet|signer|deployer)[0-9A-Za-z_ -]{0,32}["'`]{0,2}[ \t]{0,3}[:=][ \t]{0,3}["'`]?((?:0x)?[0-9a-f]{64})(?![0-9A-Za-z])/gi
  ),
  form(
    "Ansible Vault",
    ["$ansible_vault"],
    /\$ANSIBLE_VAULT;[0-9.]{3};AES256[^\n]{0,40}\n([0-9a-f\s]{80,4096})/g
  ),
  // Signed URLs: the signature is a credential as long as it is valid
  form(
    "signed URL",
    ["sig=", "ature=", "hmac="],
    /[?&;](?:amp;)?(?:sig|[Ss]ignature|X-(?:Amz|Goog|Oss|Tos|Obs|Cos)-Signature|x-(?:oss|obs|cos)-signature|q-signature|[Hh]mac|h-signature|__signature)=([0-9A-Za-z%+/=_.~-]{16,1024})/g
  ),
  form(
    "token in a signed URL",
    ["oken=", "hdnts=", "hdnea=", "__token__="],
    /[?&;](?:amp;)?(?:X-(?:Amz|Oss)-Security-Token|x-(?:cos|obs)-security-token|security-token|SecurityToken|hdnts|hdnea|__token__|sas_?[Tt]oken|[Tt]oken)=([0-9A-Za-z%+/=_.~*!-]{20,4096})/g
  ),
  form("policy of a signed URL", ["policy="], /[?&]Policy=([0-9A-Za-z%_~=-]{40,4096})/g),
  form("CDN token", ["hdnts=", "hdnea="], /[?&]hdn(?:ts|ea)=([0-9A-Za-z%=~*/_.-]{40,1024})/g),
  form(
    "access parameter of a signed URL",
    ["accesskeyid="],
    /[?&](?:AWSAccessKeyId|OSSAccessKeyId)=[^&\s"'<>]{4,200}&[^\s"'<>]{0,400}?Signature=([0-9A-Za-z%+/=_-]{16,1024})/g
  ),
  form(
    "one-time code in a URL",
    ["code=", "ticket=", "otp=", "magic="],
    /[?&](?:code|ticket|otp|magic)=([0-9A-Za-z_.~-]{20,512})/g,
    looksRandom
  ),
  form(
    "key in a URL",
    ["infura.io", "alchemy.com", "quiknode.pro", "appid="],
    /infura\.io\/v3\/([0-9a-f]{32})|\.alchemy\.com\/v2\/([0-9A-Za-z_-]{32})|quiknode\.pro\/([0-9a-f]{40})|[?&]appid=([0-9a-f]{32})/g
  ),
  form(
    "key of Solana",
    ["secret", "private", "keypair", "solana", "wallet"],
    /(?:secret|private|keypair|solana|wallet)[^\n[]{0,40}\[((?:[0-9]{1,3},\s{0,2}){63}[0-9]{1,3})\]/gi
  ),
  form("response of SAML", ["samlresponse"], /SAMLResponse"?[=:]\s?"?([0-9A-Za-z+/%=]{100,16000})/g),
  // Webhook URLs whose path is the secret
  form(
    "Slack webhook",
    ["hooks.slack"],
    /hooks\.slack(?:-gov)?\.com\/(?:services|workflows|triggers)\/([0-9A-Za-z_/-]{24,})/g
  ),
  form(
    "Discord webhook",
    ["/webhooks/"],
    /discord(?:app)?\.com\/api(?:\/v[0-9]{1,2})?\/webhooks\/([0-9]{15,20}\/[0-9A-Za-z_-]{40,})/g
  ),
  form(
    "Teams webhook",
    ["office.com/webhook"],
    /(?:webhook|outlook)\.office\.com\/webhook(?:b2)?\/([0-9A-Za-z@/-]{60,400})/g
  ),
  form(
    "Google Chat webhook",
    ["chat.googleapis.com"],
    /chat\.googleapis\.com\/v1\/spaces\/[0-9A-Za-z_-]{4,64}\/messages\?([^\s"'<>]{40,400})/g
  ),
  form(
    "Zapier, IFTTT, Make webhook",
    ["hooks.zapier", "maker.ifttt", "hook."],
    /hooks\.zapier\.com\/hooks\/catch\/([0-9A-Za-z/]{12,64})|maker\.ifttt\.com\/trigger\/[0-9A-Za-z_-]{1,64}\/(?:json\/)?with\/key\/([0-9A-Za-z_-]{20,64})|hook\.(?:eu[12]|us[12]|integromat)\.(?:make\.)?com\/([0-9a-z]{24,40})/g
  ),
  form(
    "Tines, Pipedream, n8n webhook",
    ["/webhook/"],
    /\.tines\.com\/webhook\/([0-9a-z]{24,40}\/[0-9a-z]{24,64})/g
  ),
  form("Telegram URL", ["api.telegram.org"], /api\.telegram\.org\/bot([0-9]{6,12}:[0-9A-Za-z_-]{20,50})/g),
  form(
    "Feishu, DingTalk or WeCom robot",
    ["open-apis/bot", "robot/send", "webhook/send"],
    /open\.(?:feishu|larksuite)\.c(?:n|om)\/open-apis\/bot\/v2\/hook\/([0-9a-f-]{30,40})|oapi\.dingtalk\.com\/robot\/send\?access_token=([0-9a-f]{40,80})|qyapi\.weixin\.qq\.com\/cgi-bin\/webhook\/send\?key=([0-9a-f-]{30,40})/g
  ),
  form("Sentry DSN with its secret", ["ingest"], /https:\/\/[0-9a-f]{32}:([0-9a-f]{32})(?=@)/g),
  form(
    "PagerDuty, healthchecks or VictorOps URL",
    ["events.pagerduty", "hc-ping", "victorops"],
    /events\.pagerduty\.com\/integration\/([0-9a-f]{32})|hc-ping\.com\/([0-9a-f-]{36})|(?:alert|api)\.victorops\.com\/integrations\/generic\/[0-9]{1,12}\/alert\/([0-9a-f-]{36})/g
  ),
  form(
    "ICS or feed address",
    ["/private-"],
    /calendar\.google\.com\/calendar\/(?:ical|u\/[0-9]\/r)\/[^\s/]{4,128}\/private-([0-9a-f]{32})/g
  ),
  form("Meeting with its passcode", ["pwd="], /[?&]pwd=([0-9A-Za-z._-]{20,64})/g),
  // Other notations
  form(
    "file of cookies",
    ["\ttrue\t", "\tfalse\t"],
    /\t(?:TRUE|FALSE)\t[0-9]{1,12}\t[\w.-]{1,128}\t([0-9A-Za-z%+/=_.~:-]{16,4096})/g,
    looksRandom
  ),
  form(
    "password of a proxy without a scheme",
    ["@"],
    /(?<![\w/.:@+-])[\w.-]{2,32}:((?=[^\s:@/"'<>]{0,63}[0-9])(?=[^\s:@/"'<>]{0,63}[A-Za-z])[^\s:@/"'<>]{6,64})@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}:[0-9]{2,5}/g
  ),
  form(
    "one-time password address",
    ["otpauth"],
    /otpauth(?:-migration)?:\/\/[^\s"'<>?]{1,256}\?(?:[^\s"'<>&]{1,256}&){0,8}?(?:secret|data)=([0-9A-Za-z%+/=_-]{12,512})/gi
  ),
  form(
    "Basic credential in a pool address",
    ["stratum"],
    /stratum\+tcp:\/\/[^\s:@/]{1,64}:([^\s@/]{4,64})(?=@)/g
  )
]

const tokenForms: ReadonlyArray<TokenForm> = [...markedKinds, ...contextForms]

/** The triggers of each form. */
export const tokenTriggers: ReadonlyArray<ReadonlyArray<string>> = tokenForms.map(({ words }) => words)

/** Finds secrets of these forms. `first`: the number of the first form's triggers in the scan. Yields after each form. */
export function* findTokens(
  text: string,
  scan: TextScan,
  first: number
): Generator<void, ReadonlyArray<TextRange>> {
  const found: Array<TextRange> = []
  // Counted, because `entries()` allocates two objects for each form, half of all that a redaction allocated.
  for (let index = 0; index < tokenForms.length; index++) {
    const tokenForm = tokenForms[index]
    if (tokenForm === undefined || scan.longestWord < tokenForm.minWord) continue
    if (tokenForm.words.length > 0 && !scan.has(first + index)) continue
    for (const match of text.matchAll(tokenForm.form)) {
      const secret = match.slice(1).find((group) => group !== undefined) ?? match[0]
      if (!tokenForm.isSecret(secret, match)) continue
      const start = match.index + match[0].lastIndexOf(secret)
      found.push({ start, end: start + secret.length })
    }
    if (hasSteps(text)) yield
  }
  return found
}
