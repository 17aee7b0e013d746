import { JsonPointer } from "effect"
import { checkCollectorHeaders } from "../telemetry/CollectorHeaders.ts"

/** A fault in one header, without its value. `pointer` is relative to the provider. */
export interface ProviderHeaderFault {
  readonly pointer: string
  readonly detail: string
}

/** Headers that the API key, the body and the API's version are sent in. */
const OWN: ReadonlySet<string> = new Set([
  "authorization",
  "api-key",
  "x-api-key",
  "anthropic-version",
  "accept"
])

/**
 * Checks the headers of a provider, in the order given: the rules are the same as for a collector's headers, and a header that the service sends
 * itself is refused too.
 */
export const checkProviderHeaders = (
  headers: ReadonlyArray<readonly [name: string, value: string]>
): ReadonlyArray<ProviderHeaderFault> => [
  ...checkCollectorHeaders(headers).map(({ detail, pointer }) => ({ pointer, detail })),
  ...headers.flatMap(([name]) =>
    OWN.has(name.toLowerCase())
      ? [
          {
            pointer: JsonPointer.formatUriFragment(["headers", name]),
            detail: `${name} is sent by this service: set the key as \`api_key\``
          }
        ]
      : []
  )
]
