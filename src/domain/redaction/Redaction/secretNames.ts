const words = (text: string): ReadonlySet<string> => new Set(text.split(" "))

/** Words of secret names, alone or before `key`. */
const secretWords = words(
  "secret secrets password passwd pwd passphrase passcode passkey pass passw token tokens auth authorization credential credentials creds " +
    "session sid jsessionid phpsessid cookie jwt bearer apikey accesskey secretkey privatekey signingkey encryptionkey apitoken accesstoken authtoken pat psk " +
    "clientsecret appsecret apisecret seed mnemonic senha wachtwoord haslo heslo parola sifre lozinka geslo salasana jelszo contrasena " +
    "passwort kennwort crumb secretaccesskey totp connectionstring pin cvv cvc"
)

/** Words before `key` that make it a secret, whatever the value looks like. */
const keyWords = words(
  "api access secret private auth signing sign encryption decryption master account service shared client app application admin root " +
    "subscription license licence storage server deploy ingest write read webhook consumer merchant function functions fernet hmac jwt " +
    "session cookie aes crypto cipher user team org workspace personal live prod production sandbox integration developer partner " +
    "vault unseal recovery backup bot rest sdk instrumentation registration enrollment join preshared wpa wifi"
)

/** Words before `key` that make it a name or a public value. */
const harmlessKeyWords = words(
  "public pub publishable primary foreign sort partition cache idempotency row object map lookup group unique index order translation i18n " +
    "message json dict data shortcut hot field registry arrow enter escape tab left right up down any host site project metric config " +
    "route query hash event react query item list state dedupe deduplication routing range composite candidate natural surrogate " +
    "alternate entity record resource property attribute locale label color theme sku product category parent child node tag header meta websocket socket image file asset media photo avatar video blob upload attachment document doc " +
    "i page content chunk shard bucket lock job task queue message topic stream channel room thread"
)

/** Last words of names that are not secret, whatever precedes them: `token_id`, `password_hash`, `session_expires_at`. */
const harmless = words(
  "id ids hash digest checksum fingerprint sha sha1 sha256 sha512 md5 etag name type kind status state url uri href link path count " +
    "limit length size at on date time expires expiry expiration ttl version format label title description note scope scopes public " +
    "usage used policy hint prefix suffix field column file ref reference number no index provider issuer audience integrity thumbprint " +
    "endpoint algorithm alg rotation lifetime duration budget algorithmid keyid tokenid pub age bits strength class cls update updated role roles method mode " +
    // File extensions.
    "ts tsx js mjs py go rs rb java kt php sh json yml yaml toml md txt html css lock"
)

/** Words before `token` that make it a position in a list. */
const positionWords = words(
  "next page continuation sequence starting sync pagination cursor resume start end previous prev last upload nextpage"
)

/** Words before `tokens` that make it a number: `max_tokens`, `prompt_tokens`. */
const countWords = words(
  "max min total num input output prompt completion reasoning thinking cached generated remaining"
)

/** Last words of names of passwords, in the languages that the rules cover. */
const passwordNames =
  /(?:p(?:aa?)?ss?w(?:ors?|r)?d[0-9]{0,3}|passwort|passwrd|passphrase|passcode|pwd[0-9]{0,3}|pswd?|psk|kennwort|contrase[\u00f1n]a|senha|wachtwoord|has[l\u0142]o|heslo|parola|[s\u015f]ifre(?:si|niz|m)?|lozinka|geslo|salasana|jelsz[o\u00f3]|adgangskode|l[o\u00f6]senord|palavra-?passe|(?:^|[\W_])(?:clave|pw|mdp)|(?:[\W_]|db|user|admin|root|mail|smtp|ftp|sql)pass)(?:[_-]?(?:confirm(?:ation)?|repeat|again))?$/i
const camelPasswordNames = /[a-z](?:Pass|Pw)$/

/** Whether passwords are stored under names like this. */
export const isPasswordName = (name: string): boolean =>
  passwordNames.test(name) || camelPasswordNames.test(name)

/** Splits a name into words: camel case, snake case or any other separator. */
const partsOf = (name: string): ReadonlyArray<string> =>
  name
    .replace(/([a-z0-9])([A-Z])/g, "$1 $2")
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter((part) => part !== "")
    .map((part) => (/[0-9]$/.test(part) ? withoutNumber(part) : part))

/** The word of a part that ends in a number, as in `password2`. */
const withoutNumber = (part: string): string => /^(?!auth0)([a-z]{3,})[0-9]{1,3}$/.exec(part)?.[1] ?? part

const isNumber = (part: string): boolean => /^[0-9]+$/.test(part)

/** Characters at the end of a name that decide. */
const MAX_NAME = 128

/**
 * Whether secrets are stored under names like this. Sufficient to leave a value out of a summary; redaction checks the
 * value too.
 */
export const isSecretName = (name: string): boolean => {
  const end = name.slice(-MAX_NAME)
  if (isPasswordName(end)) return true
  const parts = partsOf(end)
  const last = parts.findLast((part) => !isNumber(part))
  if (last === undefined || harmless.has(last) || parts.includes("public") || parts.includes("publishable"))
    return false
  if (/^tokens?$/.test(last) && parts.slice(-3).some((part) => positionWords.has(part))) return false
  if (last === "tokens" && parts.some((part) => countWords.has(part))) return false
  return (
    /^[a-z]{2,}(?:token|secret|apikey|passwo?r?d)$/.test(last) ||
    parts.some(
      (part, index) =>
        secretWords.has(part) ||
        (part === "key" && keyWords.has(parts[index - 1] ?? "")) ||
        (part === "string" && parts[index - 1] === "connection")
    )
  )
}

/** Words of secret names that identifiers also have. */
const looseWords = words(
  "token tokens auth authorization credential credentials creds session sid cookie jwt seed pat pass pin cvv cvc"
)

/** Words before `token` that make it an identifier: `session_token`, but not `server_token`. */
const identifierWords = words(
  "session csrf xsrf idempotency lease fencing client request correlation cancellation trace sid id transaction order event lock"
)

/** Whether a secret name denotes a key rather than a token or session: `api_token` and `client_secret`, but not `token`. */
export const isKeyName = (name: string): boolean => {
  const parts = partsOf(name)
  return parts.some((part, index) =>
    part === "key"
      ? keyWords.has(parts[index - 1] ?? "")
      : (secretWords.has(part) && !looseWords.has(part)) ||
        (/^tokens?$/.test(part) && index > 0 && !identifierWords.has(parts[index - 1] ?? ""))
  )
}

/** Whether a name ends in `key` without saying which: `datadogKey`, but not `sortKey` or `publicKey`. Its value must look random. */
export const isSomeKeyName = (name: string): boolean => {
  if (name.length > MAX_NAME) return false
  const parts = partsOf(name).filter((part) => !isNumber(part))
  const last = parts.at(-1) ?? ""
  if (/^(?!monkey|turkey|hockey|jockey|donkey|whiskey)[a-z]+key$/.test(last))
    return !harmlessKeyWords.has(last.slice(0, -3))
  return last === "key" && parts.length > 1 && !parts.slice(0, -1).some((part) => harmlessKeyWords.has(part))
}
