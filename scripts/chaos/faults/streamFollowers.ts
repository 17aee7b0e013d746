/** Clients that follow sessions as server-sent events, and reconnect to another replica when a stream ends. */
import { Effect, Redacted } from "effect"

/** Sessions that are followed at most. */
const MAX_FOLLOWED = 12

const PAUSE_MILLIS = 100

/** Numbers of events in a text of complete events. */
const eventNumbers = (text: string): ReadonlyArray<number> =>
  [...text.matchAll(/^id: ?(\d+)$/gm)].map(([, number]) => Number(number))

/**
 * Follows the first of these sessions. `stop` ends that, and returns a sentence if an event was missed, repeated or out of order, or if a
 * stream was refused otherwise than by 503.
 */
export const startFollowers = (
  urls: () => ReadonlyArray<string>,
  key: Redacted.Redacted,
  sessions: ReadonlySet<string>
) =>
  Effect.gen(function* () {
    const broken: Array<string> = []
    const ending = new AbortController()
    let events = 0
    let reconnections = 0
    const pause = () => new Promise((resume) => setTimeout(resume, PAUSE_MILLIS))

    const readStream = async (session: string, worker: number, last: number): Promise<number> => {
      const list = urls()
      const response = await fetch(
        `${list[worker % list.length] ?? ""}/v1/agent-sessions/${session}/events/stream`,
        {
          headers: { authorization: `Bearer ${Redacted.value(key)}`, "last-event-id": String(last) },
          signal: ending.signal
        }
      )
      if (response.status !== 200) {
        const text = await response.text()
        if (response.status !== 503) broken.push(`a stream got ${response.status} ${text.slice(0, 200)}`)
        return last
      }
      let newest = last
      let rest = ""
      try {
        for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
          rest += chunk
          const end = rest.lastIndexOf("\n\n")
          if (end < 0) continue
          for (const number of eventNumbers(rest.slice(0, end + 2))) {
            if (number !== newest + 1) broken.push(`session ${session}: event ${number} after ${newest}`)
            newest = number
            events++
          }
          rest = rest.slice(end + 2)
        }
      } catch {
        // The replica has stopped, or the run has ended: the client goes on after the last complete event.
      }
      return newest
    }

    const follow = async (session: string, number: number) => {
      let last = 0
      for (let worker = number; !ending.signal.aborted; worker++) {
        last = await readStream(session, worker, last).catch(() => last)
        reconnections++
        await pause()
      }
    }

    const followAll = async () => {
      const followed = new Map<string, Promise<void>>()
      while (!ending.signal.aborted) {
        for (const session of sessions) {
          if (followed.size < MAX_FOLLOWED && !followed.has(session))
            followed.set(session, follow(session, followed.size))
        }
        await pause()
      }
      await Promise.all(followed.values())
    }
    const running = followAll()
    const end = Effect.promise(async () => {
      ending.abort()
      await running
    })
    yield* Effect.addFinalizer(() => end)
    return {
      stop: Effect.map(end, () => [
        ...new Set(broken),
        ...(events === 0 ? ["no stream had an event"] : []),
        ...(reconnections === 0 ? ["no stream was resumed"] : [])
      ])
    }
  })
