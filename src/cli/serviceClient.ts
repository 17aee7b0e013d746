import { Effect, type Layer, Option, type Redacted, Schema } from "effect"
import { Client, redactedKey } from "../client/Client.ts"
import { baseUrl } from "../client/ClientOptions.ts"

import { ProcessEnvironment } from "./environment.ts"
import { DEFAULT_URL } from "./serviceUrl.ts"
import { describeUrlFault } from "./serviceFailure.ts"

/** The URL or the key of a service cannot be used. The message is one sentence: the fault and the remedy. */
export class ServiceRefused extends Schema.TaggedError<ServiceRefused>()("ServiceRefused", {
  message: Schema.String
}) {}

/** Returns the base URL that a flag or variable sets, without a trailing slash. */
export const readServiceUrl = (text: string, source = "--url"): Effect.Effect<string, ServiceRefused> => {
  const fault = describeUrlFault(text, source)
  return fault === undefined
    ? Effect.sync(() => baseUrl(text))
    : Effect.fail(new ServiceRefused({ message: fault }))
}

/** Returns the base URL of a flag, of the variable `COUNTERSIGN_URL`, or of this machine. */
export const findServiceUrl = (flag: Option.Option<string>) =>
  Effect.flatMap(ProcessEnvironment, ({ variables }) =>
    Option.isSome(flag)
      ? readServiceUrl(flag.value)
      : readServiceUrl(variables["COUNTERSIGN_URL"] ?? DEFAULT_URL, "COUNTERSIGN_URL")
  )

/** Checks that a header can contain the key. The fault of a key is often a line break, from a file with several lines. */
export const readServiceKey = (key: Redacted.Redacted): Effect.Effect<Redacted.Redacted, ServiceRefused> =>
  Effect.try({
    try: () => redactedKey(key),
    catch: () =>
      new ServiceRefused({
        message:
          "The API key contains a space, a line break or another character that keys do not have: copy it again."
      })
  })

/** The client of the service of a flag. */
export const makeClientLayer = Effect.fnUntraced(function* (options: {
  readonly url: string
  readonly key: Redacted.Redacted
}): Effect.fn.Return<Layer.Layer<Client>, ServiceRefused> {
  return Client.layer({ url: options.url, key: yield* readServiceKey(options.key) })
})
