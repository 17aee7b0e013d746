import { assert, describe, it } from "@effect/vitest"
import { Cause } from "effect"
import { InvalidRequest, NotFound } from "../../../src/api/Problems.ts"
import { ServiceUnreachable } from "../../../src/client/ServiceUnreachable.ts"
import { UnexpectedResponse } from "../../../src/client/UnexpectedResponse.ts"
import { failureOfAction, fieldError } from "../../../src/console/ui/Failure.ts"

const request = {
  operation: "sessions.list",
  method: "GET",
  url: new URL("http://service/v1/agent-sessions")
}
const failure = (error: unknown) => failureOfAction(Cause.fail(error))

describe("a failure that the console shows", () => {
  it("tells an unreachable service from another server's response", () => {
    const unreachable = failure(new ServiceUnreachable(request, "ECONNREFUSED"))
    assert.strictEqual(unreachable?.title, "No response from the service")
    const unexpected = failure(new UnexpectedResponse(request, 404, "not of this API"))
    assert.strictEqual(unexpected?.title, "Unexpected response")
  })

  it("keeps the texts of the service's problem", () => {
    const problem = failure(new NotFound({ detail: "No such session.", request_id: "req_1" }))
    assert.deepInclude(problem, { title: "Not found", detail: "No such session.", requestId: "req_1" })
  })

  it("marks the fields of input that the client refused", () => {
    const errors = [{ pointer: "#/name", detail: "Expected a name" }]
    const refused = failure(new InvalidRequest({ detail: "apiKeys.create: the input is invalid.", errors }))
    assert.deepInclude(refused, { title: "Some fields are invalid", detail: "" })
    assert.strictEqual(fieldError(refused, "name"), "Expected a name")
  })
})
