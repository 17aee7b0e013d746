import { Api } from "../../../api/Api.ts"
import { END_USER_FEEDBACK_PATH } from "../../../api/EndUserFeedback.ts"
import { VERIFY_EMAIL_PATH } from "../../../domain/identity/VerificationLink.ts"

/** The paths outside the API contract that are read-only. */
const operatorPaths =
  /^\/(?:(?:healthz|readyz|metrics|openapi\.json|docs|favicon\.ico|console(?:\/.*)?)\/?)?$/

const patternOf = (path: string): RegExp =>
  new RegExp(`^${path.replaceAll(/:\w+/g, "[^/]+").replace(/(?<=.)\/$/, "")}/?$`)

/** The path of each operation as a regular expression, with its method. */
const routes: ReadonlyArray<{ readonly path: RegExp; readonly method: string }> = [
  { path: operatorPaths, method: "GET" },
  ...["GET", "POST"].map((method) => ({ path: new RegExp(`^${VERIFY_EMAIL_PATH}$`), method })),
  ...["POST", "OPTIONS"].map((method) => ({ path: patternOf(END_USER_FEEDBACK_PATH), method })),
  ...Object.values(Api.groups).flatMap((group) =>
    Object.values(group.endpoints).map((endpoint) => ({
      path: patternOf(endpoint.path),
      method: endpoint.method
    }))
  )
]

/**
 * The methods of a path; empty if the path is unknown. Effect's router answers 404 for a wrong method, so this
 * distinguishes 405 from 404. It runs for unmatched requests only.
 */
export const allowedMethods = (url: string): ReadonlyArray<string> => {
  const path = url.split(/[?#]/, 1)[0] ?? ""
  const methods = new Set<string>()
  for (const route of routes) {
    if (!route.path.test(path)) continue
    methods.add(route.method)
    // Every GET route also answers HEAD.
    if (route.method === "GET") methods.add("HEAD")
  }
  return [...methods]
}
