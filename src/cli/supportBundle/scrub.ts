import { Effect } from "effect"
import { readFile } from "node:fs/promises"
import { KnownValues, REDACTED, redactText } from "../../domain/redaction/Redaction.ts"
import type { Environment } from "../../server/config/Settings.ts"
import { textOfVariable } from "../../server/config/Settings/readVariables.ts"
import { variableNames, variables } from "../../server/config/Settings/variables.ts"
import type { Variable } from "../../server/config/Settings/Variable.ts"
import { masterKeyPath } from "../../server/secrets/MasterKeyFile.ts"
import { passwordPath } from "../../server/store/EmbeddedPostgres.ts"

/** Shorter parts of a setting, such as a user named `app`, would redact words of every text. */
const MIN_SECRET_LENGTH = 6

/** User and password of a URL, as they are written and as they are decoded. */
const credentialsOf = (text: string): ReadonlyArray<string> => {
  const url = URL.parse(text)
  if (url === null) return []
  const written = [url.username, url.password, url.searchParams.get("password") ?? ""]
  return written.flatMap((part) => {
    try {
      return [part, decodeURIComponent(part)]
    } catch {
      return [part]
    }
  })
}

/** The secrets of the environment: the texts of secret variables, and their parts. */
const secretsOf = (environment: Environment): ReadonlyArray<string> =>
  variableNames
    .flatMap((name) => {
      const variable: Variable<unknown> = variables[name]
      const text = variable.secret ? textOfVariable(environment, name) : undefined
      if (text === undefined) return []
      return [text, ...text.split(",").map((part) => part.trim()), ...credentialsOf(text)]
    })
    .filter((part) => part.length >= MIN_SECRET_LENGTH)

const EMAIL = /[\p{L}\p{N}._%+-]{1,64}@[\p{L}\p{N}-]{1,63}(?:\.[\p{L}\p{N}-]{1,63})+/gu

/** User and password before the host of a URL. */
const USER_INFO = /\b([a-z][a-z0-9+.-]{0,30}:\/\/)[^\s/@"']{1,500}@/gi

/** The secrets that the service generates in a data directory: the master key and the password of the embedded PostgreSQL. */
export const readGeneratedSecrets = (dataDir: string): Effect.Effect<ReadonlyArray<string>> =>
  Effect.forEach([masterKeyPath(dataDir), passwordPath(dataDir)], (file) =>
    // A file that does not exist has no secret; one that this account may not read cannot be searched for.
    Effect.promise(() =>
      readFile(file, "utf8").then(
        (text) => text.trim(),
        () => ""
      )
    )
  )

/**
 * A function that removes from a text the secrets of the environment, other known secrets, texts in the form of a secret, email addresses, and the user and
 * password of URLs. The last step for every file of a bundle: each of them already contains only values that are meant to be shown.
 */
export const makeScrub = (
  environment: Environment,
  others: ReadonlyArray<string> = []
): ((text: string) => string) => {
  const known = new KnownValues([
    ...secretsOf(environment),
    ...others.filter(({ length }) => length >= MIN_SECRET_LENGTH)
  ])
  return (text) => redactText(text, known).replaceAll(USER_INFO, `$1${REDACTED}@`).replaceAll(EMAIL, REDACTED)
}
