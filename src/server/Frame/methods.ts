import { Api } from "../../api/Api.ts"

/** Each path of the contract as an expression, with the methods it knows. */
const paths: ReadonlyArray<{ readonly expression: RegExp; readonly method: string }> = Object.values(
  Api.groups
).flatMap((group) =>
  Object.values(group.endpoints).map((endpoint) => ({
    expression: new RegExp(`^${endpoint.path.replaceAll(/:\w+/g, "[^/]+").replace(/(?<=.)\/$/, "")}/?$`),
    method: endpoint.method
  }))
)

/** The methods that a path of the contract knows; none where there is no such path. Only asked on the way to a 404 or 405. */
export const allowedMethods = (url: string): ReadonlyArray<string> => {
  const path = url.split(/[?#]/, 1)[0] ?? ""
  return [...new Set(paths.filter(({ expression }) => expression.test(path)).map(({ method }) => method))]
}
