/** The wire format of server-sent events (WHATWG HTML, section 9.2.6), as bytes. */

/** An event as stored. */
export interface EventRecord {
  readonly number: number
  readonly type: string
  /** One line of JSON: `JSON.stringify` writes no line break. */
  readonly data: string
}

/**
 * The first bytes of a stream: the client reconnects three seconds after a lost connection. The line belongs to the block of the first event,
 * since parsers such as httpx-sse make an event of a block without data.
 */
export const PREAMBLE: Uint8Array = Buffer.from("retry: 3000\n")

/** The heartbeat: a comment line, which clients ignore, and which keeps proxies from closing an idle connection. No block of its own either. */
export const HEARTBEAT: Uint8Array = Buffer.from(": heartbeat\n")

/** Headers of a stream. A proxy that buffers or compresses it would hold events back. */
export const STREAM_HEADERS = { "cache-control": "no-store, no-transform", "x-accel-buffering": "no" }

/** Encodes events in order. */
export const encodeEvents = (events: ReadonlyArray<EventRecord>): Uint8Array => {
  let text = ""
  for (const { data, number, type } of events) text += `id: ${number}\nevent: ${type}\ndata: ${data}\n\n`
  return Buffer.from(text)
}
