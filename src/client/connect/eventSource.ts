/** The connections of a session's stream, by `fetch`. */
import { UnexpectedResponse } from "../UnexpectedResponse.ts"
import { buildRequest, type CallDefaults, failureOf } from "./call.ts"
import type { CallOptions } from "./CallOptions.ts"
import type { SessionEvent } from "./generated/Operations.ts"
import { operationTable } from "./generated/operationTable.ts"
import { type Connection, header, send } from "./send.ts"
import type { EventSource } from "./sessionEvents.ts"
import { fromWire, Mismatch } from "./shape.ts"
import { systemClock } from "./wait.ts"

const operation = "stream"

/** Opens the streams of one service. */
export const eventSource = (
  connection: Connection,
  options: CallOptions,
  defaults: CallDefaults
): EventSource<SessionEvent> => ({
  clock: systemClock,
  open: async (id, after, signal) => {
    const input = { params: { id }, query: { after } }
    const request = buildRequest(connection, operation, streamEntry(), input, options, defaults)
    const response = await send(connection, request, signal)
    if (response.status === 204) return undefined
    if (response.status !== 200) throw await failureOf(response, request, signal)
    const fail = (description: string) => new UnexpectedResponse(request, response.status, description)
    const isEventStream = header(response, "content-type")?.startsWith("text/event-stream") === true
    if (!isEventStream || response.body === null) throw fail("not an event stream")
    return { body: response.body, decode: (data) => decode(data, fail), fail }
  }
})

/** A function, so that a bundle without streams is free of the table: reading a member could have an effect. */
const streamEntry = () => operationTable["sessions"]?.["stream"] ?? { method: "GET", path: "", status: 200 }

const decode = (data: string, fail: (description: string) => UnexpectedResponse): SessionEvent => {
  try {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- type and shape are generated from the same schema, and the shape is checked
    return fromWire("SessionEvent", JSON.parse(data)) as SessionEvent
  } catch (error) {
    throw fail(
      error instanceof Mismatch
        ? `an event does not match the API at ${error.pointer}`
        : "an event is not JSON"
    )
  }
}
