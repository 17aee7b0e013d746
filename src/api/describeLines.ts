import type { OpenApi } from "effect/http-api"

type Transform = NonNullable<Parameters<typeof OpenApi.annotations>[0]["transform"]>

/** Describes the response of an operation that streams JSON Lines: the library's description is that of any stream. */
export const describeLines =
  (description: string): Transform =>
  (operation) => {
    const { "200": streamed, ...others } = operation["responses"] ?? {}
    return { ...operation, responses: { "200": { ...streamed, description }, ...others } }
  }
