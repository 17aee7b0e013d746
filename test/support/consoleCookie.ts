import { Effect, Redacted } from "effect"
import { PAGE_HEADER } from "../../src/api/console/pageToken.ts"
import { Countersign } from "../../src/testing/index.ts"
import { send } from "./service.ts"

/** Signs in to the console with an API key, and returns the headers of requests of its page. */
export const consoleHeaders = (
  key: Redacted.Redacted
): Effect.Effect<Record<string, string>, never, Countersign> =>
  Effect.gen(function* () {
    const { url } = yield* Countersign
    const ownOrigin = { origin: url, "sec-fetch-site": "same-origin" }
    const answer = yield* send("/console/session", {
      method: "POST",
      headers: ownOrigin,
      body: JSON.stringify({ key: Redacted.value(key) })
    })
    return {
      ...ownOrigin,
      cookie: answer.headers.getSetCookie()[0]?.split(";")[0] ?? "",
      [PAGE_HEADER]: answer.headers.get(PAGE_HEADER) ?? ""
    }
  })
