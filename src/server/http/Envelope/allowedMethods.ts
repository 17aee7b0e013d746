import { Api } from "../../../api/Api.ts"

/** The paths beside the contract, all of them read-only. */
const beside = /^\/(?:healthz|readyz|metrics|openapi\.json|docs|console(?:\/.*)?)\/?$/

/** Each path of the contract as an expression, with the methods it knows. */
const paths: ReadonlyArray<{ readonly expression: RegExp; readonly method: string }> = [
  { expression: beside, method: "GET" },
  ...Object.values(Api.groups).flatMap((group) =>
    Object.values(group.endpoints).map((endpoint) => ({
      expression: new RegExp(`^${endpoint.path.replaceAll(/:\w+/g, "[^/]+").replace(/(?<=.)\/$/, "")}/?$`),
      method: endpoint.method
    }))
  )
]

/** The methods that a path knows; none where there is no such path. Only asked on the way to a 404 or 405. */
export const allowedMethods = (url: string): ReadonlyArray<string> => {
  const path = url.split(/[?#]/, 1)[0] ?? ""
  const methods = new Set<string>()
  for (const { expression, method } of paths) {
    if (!expression.test(path)) continue
    methods.add(method)
    // What is read can be asked for without its body.
    if (method === "GET") methods.add("HEAD")
  }
  return [...methods]
}
