import { Console, Effect, Option, Redacted, Schema, Stream } from "effect"
import { Flag } from "effect/cli"
import { ProcessEnvironment } from "./environment.ts"
import { pathFlag } from "./path.ts"
import { readLines } from "./readLines.ts"

/** The longest secret in a file, in characters. */
const MAX_SECRET = 1_000

/** Where a command finds a secret. Arguments are visible to every account of the machine, so the other ways come first in its help. */
export interface SecretSources {
  /** The name of the flag with the secret itself. */
  readonly flag: string
  /** The environment variable with the secret. */
  readonly variable: string
  /** Description of the secret, for the flags' help. */
  readonly what: string
}

/** The values of the flags. */
export interface GivenSecret {
  readonly text: Option.Option<Redacted.Redacted>
  readonly file: Option.Option<string>
}

/** The secret is missing or unusable. */
export class SecretMissing extends Schema.TaggedError<SecretMissing>()("SecretMissing", {
  message: Schema.String
}) {}

/** The two flags of a secret: its text, and a file that contains it. */
export const secretFlags = ({ flag, variable, what }: SecretSources) => ({
  text: Flag.Redacted(flag).pipe(
    Flag.withDescription(`${what}. Other accounts can see it in the list of processes: prefer ${variable}`),
    Flag.optional
  ),
  file: pathFlag(`${flag}-file`).pipe(
    Flag.withDescription(`File that contains it; - for standard input. Default: the variable ${variable}`),
    Flag.optional
  )
})

/** The secret from a file, the command line or the environment, in this order; none if it is in none of them. */
export const findSecret = Effect.fnUntraced(function* (
  { flag, variable }: SecretSources,
  given: GivenSecret
): Effect.fn.Return<Option.Option<Redacted.Redacted>, Error> {
  if (Option.isSome(given.file)) {
    const first = yield* Effect.flatMap(
      readLines(given.file.value, MAX_SECRET).pipe(Stream.runHead),
      (line) => Effect.succeed(Option.getOrElse(line, () => "").trim())
    )
    return first === "" || first.length > MAX_SECRET
      ? yield* new SecretMissing({ message: `the first line of ${given.file.value} is not a secret` })
      : Option.some(Redacted.make(first))
  }
  if (Option.isSome(given.text)) {
    yield* Console.error(
      `Warning: other accounts of this machine can see --${flag} in the list of processes. Set ${variable} or use --${flag}-file.`
    )
    return given.text
  }
  const text = (yield* ProcessEnvironment).variables[variable] ?? ""
  return text === "" ? Option.none() : Option.some(Redacted.make(text))
})
