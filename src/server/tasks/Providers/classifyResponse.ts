import { Predicate, Result } from "effect"
import { contentLimits } from "../../../domain/json/StrictJson.ts"
import type { ProviderFailureReason } from "../../../domain/tasks/ProviderFailure.ts"
import { unknownUsage, type Usage } from "../../../domain/tasks/Provider.ts"
import type { EgressFailed, EgressReason } from "../../egress/EgressFailed.ts"
import type { EgressResponse } from "../../egress/EgressResponse.ts"
import { scanInSteps, type Steps } from "./inSteps.ts"
import type { ModelApi, ParsedCompletion } from "./ModelApi.ts"

/** Bytes of a response body. */
export const MAX_RESPONSE_BYTES = 4 * 2 ** 20

/**
 * Limits of a response, checked before it is parsed: parsing more at once would hold up all requests. Other faults, such as odd figures
 * of a usage, must not lose an answer that was paid for.
 */
const LIMITS = { ...contentLimits, maxDepth: Number.POSITIVE_INFINITY, limitsOnly: true }

/** Nesting of a response of Anthropic's API around the tool's input, and of an answer: the same limit as for a request. */
const MAX_TOOL_DEPTH = 3 + 64

/** Characters in which there is no room for more values or names: the shortest member is `"a":1` and a comma. */
const MAX_UNSCANNED = 100_000

/** Failures without a response that a retry may overcome. */
const RETRYABLE: ReadonlySet<EgressReason> = new Set([
  "LookupFailed",
  "ConnectionRefused",
  "Unreachable",
  "ConnectTimedOut",
  "ConnectionClosed"
])

/** Failures of the service's own rules for outgoing requests. */
const NOT_ALLOWED: ReadonlySet<EgressReason> = new Set(["RefusedUrl", "RefusedAddress", "RefusedRequest"])

/** A model's answer. */
export interface Completion extends Omit<ParsedCompletion, "content"> {
  readonly content: string
}

/** The result of a call to a model. */
export type CallResult =
  | {
      readonly _tag: "Completed"
      readonly status: number
      readonly usage: Usage
      readonly completion: Completion
    }
  | {
      readonly _tag: "Failed"
      /** Null if the server did not respond. */
      readonly status: number | null
      readonly usage: Usage
      readonly reason: ProviderFailureReason
      /** A sentence of this service: never the server's own text, which may contain the key or the input. */
      readonly detail: string
      /** Whether a retry may succeed. */
      readonly isRetryable: boolean
      readonly retryAfter: string | undefined
    }

/** Interprets a response of an API, in steps. */
export function* classifyResponse(
  { body, complete, retryAfter, status }: EgressResponse,
  api: Pick<ModelApi<never>, "parse" | "responseName">
): Steps<CallResult> {
  const failed = (
    reason: ProviderFailureReason,
    detail: string,
    { isRetryable = false, usage = unknownUsage } = {}
  ): CallResult => ({ _tag: "Failed", status, usage, reason, detail, isRetryable, retryAfter })
  const failedWith = (code: number, usage: Usage) =>
    failed(reasonOf(code), describeStatus(code), { isRetryable: isRetryableStatus(code), usage })

  if (status < 200 || status > 299) return failedWith(status, unknownUsage)
  if (!complete) {
    return body.length >= MAX_RESPONSE_BYTES
      ? failed("invalid_response", "The model server's response is larger than 4 MiB.")
      : failed(
          "invalid_response",
          "The model server closed the connection before the response was complete.",
          { isRetryable: true }
        )
  }
  const text = new TextDecoder().decode(body)
  if (text.length > MAX_UNSCANNED && Result.isFailure(yield* scanInSteps(text, LIMITS)))
    return failed("invalid_response", tooManyValues)
  yield
  const parsed = api.parse(text)
  yield
  switch (parsed?._tag) {
    case undefined:
      return failed("invalid_response", `The model server's response is not a ${api.responseName}.`)
    case "Error":
      return failedWith(parsed.status, parsed.usage)
    case "Completion": {
      const { completion } = parsed
      const { content } = completion
      return {
        _tag: "Completed",
        status,
        usage: completion.usage,
        completion: {
          ...completion,
          content: typeof content === "string" ? content : yield* inputOf(content.input, text)
        }
      }
    }
  }
}

/**
 * The input of a tool as JSON, also a string, which can contain JSON. Empty, which is no answer, if the response has what JavaScript cannot hold, such as a number of too many
 * digits: parsed, it would be another answer than the model's.
 */
function* inputOf(input: unknown, source: string): Steps<string> {
  const scanned = yield* scanInSteps(source, { ...contentLimits, maxDepth: MAX_TOOL_DEPTH })
  yield
  const isReadable = typeof input === "string" || Predicate.isObject(input)
  return isReadable && Result.isSuccess(scanned) ? JSON.stringify(input) : ""
}

const tooManyValues = `The model server's response has more than ${contentLimits.maxValues} values, or more than ${contentLimits.maxNames} different names.`

/** Interprets a request without a response. */
export const classifyFailure = ({ phrase, reason }: EgressFailed): CallResult => ({
  _tag: "Failed",
  status: null,
  usage: unknownUsage,
  reason: NOT_ALLOWED.has(reason)
    ? "not_allowed"
    : reason === "TimedOut" || reason === "ConnectTimedOut"
      ? "timeout"
      : "unreachable",
  detail: `The model server did not respond: ${phrase}`,
  isRetryable: RETRYABLE.has(reason),
  retryAfter: undefined
})

const isRetryableStatus = (status: number): boolean => status === 408 || status === 429 || status >= 500

const reasonOf = (status: number): ProviderFailureReason => {
  switch (status) {
    case 401:
    case 403:
      return "unauthorized"
    case 402:
      return "payment_required"
    case 404:
      return "not_found"
    case 408:
    case 504:
      return "timeout"
    case 429:
      return "rate_limited"
    default:
      return status >= 500 ? "server_error" : "bad_request"
  }
}

/** Describes an error status and its remedy. */
const describeStatus = (status: number): string => {
  switch (status) {
    case 401:
    case 403:
      return `The model server rejected the API key (${status}). Set a valid \`provider.api_key\` on the task.`
    case 402:
      return "The model server's account has no credit (402)."
    case 404:
      return "The model server returned 404. Check `base_url` and `model`."
    case 400:
    case 422:
      return `The model server rejected the request (${status}). Check \`model\`, and whether it supports \`structured_output\` as configured.`
    case 429:
      return "The model server's rate limit was exceeded (429)."
    case 529:
      return "The model server is overloaded (529)."
    default:
      return `The model server returned ${status}.`
  }
}
