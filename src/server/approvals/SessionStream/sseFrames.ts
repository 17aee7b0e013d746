/** The text of server-sent events (WHATWG HTML, 9.2.6), as bytes. */

/** An event as the store holds it. */
export interface EventRecord {
  readonly number: number
  readonly type: string
  /** One line of JSON: `JSON.stringify` writes no line break. */
  readonly data: string
}

/** What a stream begins with: after a break, wait three seconds before connecting again. */
export const PREAMBLE: Uint8Array = Buffer.from("retry: 3000\n\n")

/** What shows that a quiet stream lives. */
export const HEARTBEAT: Uint8Array = Buffer.from(": still here\n\n")

/** Events in order. */
export const renderEvents = (events: ReadonlyArray<EventRecord>): Uint8Array => {
  let text = ""
  for (const { data, number, type } of events) text += `id: ${number}\nevent: ${type}\ndata: ${data}\n\n`
  return Buffer.from(text)
}
