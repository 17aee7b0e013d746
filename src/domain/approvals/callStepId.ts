/**
 * IDs of steps for calls of tools, whose own IDs do not always serve: gateways put a thousand characters into an ID, and model servers number
 * the calls of each response from the start.
 */

import { cutText } from "../cutText.ts"

/** The most characters of a step's ID. */
const MAX_LENGTH = 200

/** Characters of a longer ID that stay in front of its digest. */
const PREFIX_LENGTH = 100

/** Characters of the digest that tells calls with the same ID apart: 80 bits, within one session and one ID. */
const CONTENT_LENGTH = 20

/** The content that a decision about a call is bound to, besides the ID of the call. */
export interface CallContent {
  readonly tool: string
  readonly action_class?: string
  /** JSON. */
  readonly arguments?: unknown
}

const sha256 = async (text: string): Promise<string> => {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)))
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("")
}

/** Orders the names of objects, for `JSON.stringify`. The package of adapters has no library for canonical JSON. */
const ordered = (_name: string, value: unknown): unknown =>
  typeof value === "object" && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value).toSorted(([left], [right]) => (left < right ? -1 : 1)))
    : value

/** The ID of a call's step: the call's own. A longer one is its beginning and the SHA-256 of the whole. */
export const callStepId = async (callId: string): Promise<string> =>
  callId.length <= MAX_LENGTH ? callId : `${cutText(callId, PREFIX_LENGTH)}#${await sha256(callId)}`

/**
 * The ID of the step of a call whose ID belongs to another step of the session. It has the digest of the call's content, so that the same
 * call is found again without a record of it. `repeat` counts the steps with the same content, from 1.
 */
export const repeatedStepId = async (
  callId: string,
  content: CallContent,
  repeat: number
): Promise<string> => {
  const { action_class, arguments: args, tool } = content
  const text = JSON.stringify([tool, action_class ?? null, ...(args === undefined ? [] : [args])], ordered)
  const digest = await sha256(text)
  return callStepId(`${callId}#${digest.slice(0, CONTENT_LENGTH)}${repeat === 1 ? "" : `#${repeat}`}`)
}
