import { isPlaceholder } from "./isPlaceholder.ts"
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
}

const form = (
  name: string,
  needs: ReadonlyArray<string> | Pick<TokenForm, "words" | "minWord">,
  pattern: RegExp
): TokenForm => ({ name, ...("words" in needs ? needs : { words: needs, minWord: 0 }), form: pattern })

/** Not within a longer run of base64 or of a word. */
const BEFORE = "(?<![0-9A-Za-z+/_-])"
const AFTER = "(?![0-9A-Za-z+/_-])"

/** Marks in the middle of Azure's keys, four characters before a checksum, by the length of the key. */
const azureMarks =
  "\\+ASt|\\+ACR|\\+ABa|\\+AMC|\\+ARm|\\+ASb|\\+AEh|\\+ARe|\\+AES|\\+APR|ACDb|AIoT|APIM|AzCa|AzSe|AzFu|AzEv|AZDO|AzRe|AzAp|ASsb"

/** Forms without a fixed prefix: a mark in the middle or at the end, or a URL that contains the secret. */
export const tokenForms: ReadonlyArray<TokenForm> = [
  // Marks in the middle or at the end
  form("Telegram bot", [":aa"], /(?<![0-9A-Za-z])[0-9]{8,10}:AA[0-9A-Za-z_-]{30,48}(?![0-9A-Za-z_-])/g),
  form(
    "Telegram bot of another form",
    { words: [":a"], minWord: 33 },
    /(?<![0-9A-Za-z])[0-9]{8,10}:A[0-9A-Za-z_-]{34}(?![0-9A-Za-z_-])/g
  ),
  form(
    "Discord bot",
    { words: [], minWord: 24 },
    /(?<![0-9A-Za-z_-])[MNO][0-9A-Za-z_-]{22,27}\.[0-9A-Za-z_-]{6}\.[0-9A-Za-z_-]{25,45}(?![0-9A-Za-z_-])/g
  ),
  form("Discord user", ["mfa."], /(?<![0-9A-Za-z_-])mfa\.[0-9A-Za-z_-]{60,100}/g),
  form("Azure client secret", ["q~"], /(?<![0-9A-Za-z_~.-])[0-9A-Za-z_~.-]{3}[0-9]Q~[0-9A-Za-z_~.-]{28,36}/g),
  form(
    "Azure key with a mark",
    {
      words: [
        "+ast",
        "+acr",
        "+aba",
        "+amc",
        "+arm",
        "+asb",
        "+aeh",
        "+are",
        "+aes",
        "+apr",
        "acdb",
        "aiot",
        "apim",
        "azca",
        "azse",
        "azfu",
        "azev",
        "azdo",
        "azre",
        "azap",
        "assb"
      ],
      minWord: 32
    },
    new RegExp(`${BEFORE}[0-9A-Za-z+/]{32,80}(?:${azureMarks})[0-9A-Za-z+/]{4,10}={0,2}${AFTER}`, "g")
  ),
  form("Azure key, common form", ["jqqj9"], /(?<![0-9A-Za-z])[0-9A-Za-z]{40,60}JQQJ9[0-9A-Za-z]{20,40}/g),
  form("Azure DevOps token", ["azdo"], /(?<![0-9A-Za-z])[0-9A-Za-z]{70,80}AZDO[0-9A-Za-z]{4}/g),
  form(
    "Azure storage key after its name",
    ["=="],
    /(?:[Kk]ey|KEY|[Ss]ecret|SECRET)["'`]{0,2}[ \t]{0,3}[:=]{1,2}[ \t]{0,3}["'`]?([0-9A-Za-z+/]{86}==)/g
  ),
  form("MailChimp", ["-us"], /(?<![0-9A-Za-z])[0-9a-f]{32}-us[0-9]{1,2}(?![0-9])/g),
  form(
    "Mailgun signing key",
    { words: [], minWord: 50 },
    /(?<![0-9A-Za-z-])[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}(?![0-9A-Za-z-])/g
  ),
  form("Terraform Cloud", [".atlasv1."], /(?<![0-9A-Za-z])[0-9A-Za-z]{14}\.atlasv1\.[0-9A-Za-z_=-]{40,}/g),
  form(
    "Airtable OAuth",
    [".v1."],
    /(?<![0-9A-Za-z.])oa[0-9A-Za-z]{10,40}\.v1\.[0-9A-Za-z_-]{20,200}\.[0-9a-f]{40,128}/g
  ),
  form("MaxMind", ["_mmk"], /(?<![0-9A-Za-z])[0-9A-Za-z]{6}_[0-9A-Za-z]{29}_mmk/g),
  form("New Relic licence", ["nral"], /(?<![0-9A-Za-z])[0-9a-zA-Z]{30,36}(?:FFFF)?NRAL/g),
  form("New Relic mobile", ["-nrma"], /(?<![0-9A-Za-z])(?:AA[0-9a-f]{40}|eu01xx[0-9a-f]{36})-NRMA/g),
  form("Facebook app", ["|"], /(?<![0-9A-Za-z])[0-9]{13,17}\|[0-9A-Za-z_-]{24,40}(?![0-9A-Za-z_-])/g),
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
    "Firebase registration",
    [":apa91b"],
    /(?<![0-9A-Za-z_-])[0-9A-Za-z_-]{11,22}:APA91b[0-9A-Za-z_-]{100,200}/g
  ),
  form(
    "TrueNAS",
    { words: [], minWord: 66 },
    /(?<![0-9A-Za-z_-])[0-9]{1,3}-[0-9A-Za-z]{64}(?![0-9A-Za-z_-])/g
  ),
  form(
    "ThingsBoard device",
    ["/telemetry", "/attributes", "/rpc"],
    /\/api\/v1\/([0-9A-Za-z]{20})\/(?:telemetry|attributes|rpc)\b/g
  ),
  form("Maven master password", ["<master>"], /<master>\s{0,8}\{([^<>{}\s]{16,512})\}\s{0,8}<\/master>/g),
  form("Tableau", ["==:"], /(?<![0-9A-Za-z+/])[0-9A-Za-z+/]{22}==:[0-9A-Za-z]{32}(?![0-9A-Za-z])/g),
  form(
    "Webex bot",
    { words: [], minWord: 100 },
    /(?<![0-9A-Za-z])[0-9A-Za-z]{64}_[0-9A-Za-z]{4}_[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g
  ),
  form(
    "Dropbox long-lived",
    ["aaaaaaaaaa"],
    /(?<![0-9A-Za-z_-])[0-9a-z]{11}AAAAAAAAAA[0-9A-Za-z_=-]{40,46}/g
  ),
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
    "Bitcoin key for import",
    { words: [], minWord: 51 },
    /(?<![0-9A-Za-z])(?:5[HJK][1-9A-HJ-NP-Za-km-z]{49}|[KL][1-9A-HJ-NP-Za-km-z]{51})(?![0-9A-Za-z])/g
  ),
  form("Extended private key", ["prv"], /(?<![0-9A-Za-z])[xyzt]prv[1-9A-HJ-NP-Za-km-z]{100,112}/g),
  form("Nostr private key", ["nsec1"], /(?<![0-9A-Za-z])nsec1[02-9ac-hj-np-z]{50,60}/g),
  form(
    "Stellar secret seed",
    { words: [], minWord: 56 },
    /(?<![0-9A-Za-z])S[A-D][A-Z2-7]{54}(?![0-9A-Za-z])/g
  ),
  form("PuTTY or minisign secret", ["rwrty0iy"], /(?<![0-9A-Za-z+/])RWRTY0Iy[0-9A-Za-z+/]{100,240}={0,2}/g),
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
      if (isPlaceholder(secret)) continue
      const start = match.index + match[0].lastIndexOf(secret)
      found.push({ start, end: start + secret.length })
    }
    if (hasSteps(text)) yield
  }
  return found
}
