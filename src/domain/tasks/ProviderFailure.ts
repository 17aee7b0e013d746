import { documentedEnum } from "../documentedEnum.ts"

export const ProviderFailureReason = documentedEnum({
  unauthorized: "The model server rejected the API key (401, 403).",
  payment_required: "The model server's account has no credit (402).",
  not_found: "The model server does not know the URL or the model (404).",
  bad_request: "The model server rejected the request (any other 4xx, or a redirect).",
  rate_limited: "The model server's rate limit was exceeded (429).",
  server_error: "The model server failed (5xx).",
  timeout: "The model server did not answer in time.",
  unreachable: "The model server could not be reached.",
  not_allowed: "The URL, or the address that its host resolves to, is not allowed.",
  invalid_response: "The model server's response is incomplete, too large or unreadable.",
  refused: "The model refused to answer.",
  truncated: "The answer was truncated at its token limit.",
  invalid_answer: "The answer does not match the answer schema, even after one repair attempt.",
  prompt_too_large: "The instructions with the input's values are too long.",
  no_example: "The release's dataset has no example that can answer.",
  no_near_example:
    "The nearest example's score is below `min_score`, or no example has anything in common with the input.",
  cancelled: "The caller disconnected before the model answered."
})
export type ProviderFailureReason = typeof ProviderFailureReason.Type
