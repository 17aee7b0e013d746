/**
 * `countersign/feedback`: sends feedback of end users from a web page, with a feedback token. Without dependencies, in one
 * file: a page can also load it without a bundler.
 *
 * ```ts
 * import { sendFeedback } from "countersign/feedback"
 *
 * // `grant` is the response of `POST /v1/runs/:id/feedback-token`, which your server passes to the page.
 * await sendFeedback(grant, { score: 1, comment: "Just what I needed" })
 * ```
 */
export { FeedbackError, type FeedbackErrorCode } from "./FeedbackError.ts"
export { type EndUserFeedback, type FeedbackGrant, sendFeedback, type SendOptions } from "./sendFeedback.ts"
