import { record } from "./node.ts"

/** Components for the response headers that the middleware sets for every operation. */
export const responseHeaders = {
  RequestId: {
    description: "ID of the request. Include it when you report a problem.",
    schema: { type: "string" }
  },
  RateLimitPolicy: {
    description:
      'The limits that apply to the request, such as `"key";q=500;w=1`: `q` requests per window of `w` seconds (draft-ietf-httpapi-ratelimit-headers-10). One without `w` does not renew with time. `qu` is what it counts, if not requests. Limits of stored amounts are named from 80 % of their use on. Absent if there are none.',
    schema: { type: "string" }
  },
  RateLimit: {
    description:
      'What is left of these limits, such as `"key";r=499;t=1`: `r` requests in the next `t` seconds. Absent if there are none.',
    schema: { type: "string" }
  },
  Challenge: {
    description: 'How to authenticate: `Bearer realm="countersign"` (RFC 9110).',
    schema: { type: "string" }
  },
  RetryAfter: {
    description: "Seconds to wait before the request is sent again.",
    schema: { type: "integer", minimum: 0 }
  }
} as const

const header = (name: keyof typeof responseHeaders) => ({ $ref: `#/components/headers/${name}` })

/** Whether a problem names the time until a retry. */
const hasDelay = (problem: unknown): boolean =>
  record(record(problem)["properties"])["retry_after_seconds"] !== undefined

/** The headers of a response by its status and the schemas of its problems. */
export const headersOf = (status: string, problems: ReadonlyArray<unknown> = []) => ({
  "x-request-id": header("RequestId"),
  ...(status === "401"
    ? {}
    : { ratelimit: header("RateLimit"), "ratelimit-policy": header("RateLimitPolicy") }),
  ...(status === "401" ? { "www-authenticate": header("Challenge") } : {}),
  ...(status === "429" || status === "503" || problems.some(hasDelay)
    ? { "retry-after": header("RetryAfter") }
    : {})
})
