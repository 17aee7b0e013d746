import { Effect } from "effect"
import { HttpServerRespondable, HttpServerResponse } from "effect/http"
import { DatasetBusy, RateLimited } from "../../api/Problems.ts"
import { RequestId } from "../observability/RequestId.ts"

/**
 * The response for a problem, with the id of the current request. The id goes into a copy: services fail with problems that are shared
 * between requests.
 */
export const problemResponse = (problem: HttpServerRespondable.Respondable) =>
  Effect.flatMap(RequestId, (request_id) => {
    const copy: HttpServerRespondable.Respondable = Object.create(Object.getPrototypeOf(problem))
    const response = HttpServerRespondable.toResponse(Object.assign(copy, problem, { request_id }))
    return problem instanceof RateLimited || problem instanceof DatasetBusy
      ? Effect.map(response, HttpServerResponse.setHeader("retry-after", String(problem.retry_after_seconds)))
      : response
  })
