/** The messages of a chat, as the conventions want them in `gen_ai.input.messages` and `gen_ai.output.messages`. */

/** One message. */
export interface Message {
  readonly role: string
  readonly content: string
}

/** Ends a text that was cut. */
const CUT = "…"

/** The shortest text that messages are cut to. If more messages remain than fit then, the first ones are left out. */
const SHORTEST = 16

/**
 * Encodes messages as JSON of at most `limit` characters. If they are longer, each text is cut to the same length, the longest for which
 * they fit, within a factor of two. So the JSON stays valid, and short messages stay whole.
 */
export const encodeMessages = (
  list: ReadonlyArray<Message>,
  limit: number
): { readonly text: string; readonly isTruncated: boolean } => {
  const whole = encode(list)
  if (whole.length <= limit) return { text: whole, isTruncated: false }
  for (let length = limit; length >= SHORTEST; length = Math.floor(length / 2)) {
    const text = encode(list.map((message) => ({ ...message, content: cut(message.content, length) })))
    if (text.length <= limit) return { text, isTruncated: true }
  }
  return { text: encodeMessages(list.slice(Math.ceil(list.length / 2)), limit).text, isTruncated: true }
}

const encode = (list: ReadonlyArray<Message>): string =>
  JSON.stringify(
    list.map(({ content, role }) => ({
      role,
      parts: [{ type: "text", content }]
    }))
  )

const cut = (text: string, length: number): string =>
  text.length <= length ? text : text.slice(0, length - CUT.length).toWellFormed() + CUT
