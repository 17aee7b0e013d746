import { vi } from "vitest"

/** One response of the scripted `fetch`, or what happens instead. */
export type ScriptedResponse =
  | {
      readonly status?: number
      readonly headers?: Readonly<Record<string, string>>
      readonly body?: string | ReadableStream<Uint8Array> | null
    }
  | "no connection"
  | "never"

/** A request that the scripted `fetch` got, with its time on the fake clock. */
export interface FetchedRequest {
  readonly url: URL
  readonly init: RequestInit
  readonly at: number
}

/** Replaces `fetch` by scripted responses, of which the last one repeats, and timers by a fake clock. */
export const fakeService = (script: ReadonlyArray<ScriptedResponse>): ReadonlyArray<FetchedRequest> => {
  const fetched: Array<FetchedRequest> = []
  vi.useFakeTimers()
  vi.stubGlobal("fetch", (url: URL, init: RequestInit): Promise<Response> => {
    const { signal } = init
    const current = script[Math.min(fetched.push({ url, init, at: Date.now() }), script.length) - 1]
    if (current === "never" || current === undefined) {
      return new Promise((_, reject) => signal?.addEventListener("abort", () => reject(signal.reason)))
    }
    if (current === "no connection") {
      const cause = Object.assign(new Error("refused"), { code: "ECONNREFUSED" })
      return Promise.reject(new TypeError("fetch failed", { cause }))
    }
    const { body = null, headers = {}, status = 200 } = current
    return Promise.resolve(new Response(body, { status, headers }))
  })
  return fetched
}

/** Puts `fetch` and the clock back. */
export const realService = () => {
  vi.unstubAllGlobals()
  vi.useRealTimers()
}

/** The outcome of a promise after some time on the fake clock: its value or error, and when it settled. */
export const after = async <A>(millis: number, promise: Promise<A>) => {
  const start = Date.now()
  const settled = promise.then(
    (value) => ({ value, error: undefined, took: Date.now() - start }),
    (error: unknown) => ({ value: undefined, error, took: Date.now() - start })
  )
  await vi.advanceTimersByTimeAsync(millis)
  return settled
}
