/** Words of secret names, alone or before `key`. */
const secretWords = new Set(
  (
    "secret secrets password passwd pwd passphrase pass token tokens auth authorization credential credentials creds session sid " +
    "cookie jwt bearer apikey accesskey secretkey privatekey"
  ).split(" ")
)
const keyWords = new Set(
  "api access secret private auth signing encryption master account service shared client app".split(" ")
)

/** Last words of names that are not secret, whatever precedes them: `token_id`, `password_hash`, `session_expires_at`. */
const harmless = new Set(
  (
    "id ids hash digest checksum fingerprint sha sha1 sha256 sha512 md5 etag name type kind status state url uri href link path count " +
    "limit length size at on date time expires expiry expiration ttl version format label title description note scope scopes public " +
    "usage used policy hint prefix suffix field column file ref reference number no index provider issuer audience " +
    // File extensions.
    "ts tsx js mjs py go rs rb java kt php sh json yml yaml toml md txt html css lock"
  ).split(" ")
)

/** Splits a name into words: camel case, snake case or any other separator. */
const partsOf = (name: string): ReadonlyArray<string> =>
  name
    .replace(/([a-z0-9])([A-Z])/g, "$1 $2")
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter((part) => part !== "")

/** Whether secrets are stored under names like this. Not sufficient alone: the value is checked too. */
export const isSecretName = (name: string): boolean => {
  if (name.length > 128) return false
  const parts = partsOf(name)
  const last = parts.findLast((part) => !/^[0-9]+$/.test(part))
  if (last === undefined || harmless.has(last) || parts.includes("public")) return false
  return parts.some(
    (part, index) => secretWords.has(part) || (part === "key" && keyWords.has(parts[index - 1] ?? ""))
  )
}

/** Words of secret names that identifiers also have. */
const looseWords = new Set(
  "token tokens auth authorization credential credentials creds session sid cookie jwt".split(" ")
)

/** Whether a secret name denotes a key rather than a token or session: `api_token` and `client_secret`, but not `token`. */
export const isKeyName = (name: string): boolean =>
  partsOf(name).some((part) => keyWords.has(part) || (secretWords.has(part) && !looseWords.has(part)))
