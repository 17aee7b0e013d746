import { Effect } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import { HttpApiScalar } from "effect/http-api"
import { documentedApi, openApiDocument } from "../../../api/openApiDocument.ts"

/** Makes the response of `/openapi.json`. */
export const makeDocument = Effect.sync(() => HttpServerResponse.jsonUnsafe(openApiDocument()))

/** Makes the handler of `/docs`. */
export const makePage = HttpRouter.toHttpEffect(HttpApiScalar.layer(documentedApi, { path: "/docs" }))
