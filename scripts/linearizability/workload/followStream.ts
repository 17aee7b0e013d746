import { createParser } from "eventsource-parser"
import type { SessionCall } from "../models/sessionModel.ts"
import type { Recorder } from "../record.ts"
import { pick, sleep, type World } from "./World.ts"

/** What a client received on the stream of a session, over all its connections. */
export interface Received {
  /** The data of the events, in the order of their arrival. */
  readonly events: ReadonlyArray<string>
  /** Each event that did not follow the one before. */
  readonly faults: ReadonlyArray<string>
  readonly connections: number
}

/** The longest time and the most events of one connection: then the client breaks it and connects to some replica. */
const CONNECTION_MILLIS = 1_500
const CONNECTION_EVENTS = 12

/** Pause before the next connection. */
const RECONNECT_MILLIS = 30

/** Follows a session to its end, over connections that break anywhere, each resumed by `Last-Event-ID`. */
export const followStream = async (
  world: World,
  session_id: string,
  recorder: Recorder<SessionCall>
): Promise<Received> => {
  const events: Array<string> = []
  const faults: Array<string> = []
  let connections = 0
  let last = 0
  let isClosed = false
  const isOpen = () => !isClosed
  while (isOpen()) {
    const began = performance.now()
    const before = last
    let receivedAt = began
    let left = 1 + Math.floor(world.random() * CONNECTION_EVENTS)
    const connection = new AbortController()
    const timer = setTimeout(() => connection.abort(), world.random() * CONNECTION_MILLIS)
    const parser = createParser({
      onEvent: ({ data, event, id }) => {
        // A client that breaks its connection has not received what is behind the break.
        if (left-- <= 0 || isClosed) return
        if (Number(id) !== last + 1) faults.push(`received event ${id} after event ${last}`)
        last = Number(id)
        receivedAt = performance.now()
        events.push(data)
        isClosed = event === "session:closed"
      }
    })
    try {
      const response = await fetch(
        `${pick(world.random, world.replicas).url}/v1/agent-sessions/${session_id}/events/stream`,
        {
          headers: {
            authorization: `Bearer ${world.people.agent.key}`,
            ...(last === 0 ? {} : { "last-event-id": String(last) })
          },
          signal: connection.signal
        }
      )
      if (response.status === 204) {
        faults.push(`the stream has ended after event ${last}, which was not session:closed`)
        return { events, faults, connections }
      }
      if (response.status === 200 && response.body !== null) {
        connections++
        const decoder = new TextDecoder()
        for await (const chunk of response.body) {
          parser.feed(decoder.decode(chunk, { stream: true }))
          if (left <= 0 || isClosed) break
        }
      } else {
        await response.body?.cancel()
        if (response.status < 500)
          faults.push(`the stream was refused with ${response.status} after event ${last}`)
      }
    } catch {
      // The connection broke, or there was none.
    } finally {
      clearTimeout(timer)
      connection.abort()
    }
    if (last > before) {
      recorder.add({
        client: "stream",
        call: { kind: "receive", number: last },
        answer: "received",
        invokedAt: began,
        answeredAt: receivedAt
      })
    }
    if (isOpen()) await sleep(world.random() * RECONNECT_MILLIS)
  }
  return { events, faults, connections }
}
