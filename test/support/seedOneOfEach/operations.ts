import { Api } from "../../../src/api/Api.ts"

/** An operation of the contract. */
export interface Operation {
  /** `group.endpoint`: the method of the typed client. */
  readonly name: string
  readonly method: string
  /** The path, with parameters as `:name`. */
  readonly path: string
}

/** Every operation of the contract, in the order of the definition. */
export const operations: ReadonlyArray<Operation> = Object.values(Api.groups).flatMap((group) =>
  Object.values(group.endpoints).map((endpoint) => ({
    name: `${group.identifier}.${endpoint.identifier}`,
    method: endpoint.method,
    path: endpoint.path.replace(/(?<=.)\/$/, "")
  }))
)

/** Parameters, query and body of a request. */
export interface Request {
  readonly params?: Readonly<Record<string, string>>
  readonly query?: Readonly<Record<string, string>>
  readonly body?: unknown
}

/** Path and query of a request. */
export const targetOf = ({ path }: Operation, { params = {}, query = {} }: Request): string => {
  const filled = path.replaceAll(/:(\w+)/g, (_, name: string) =>
    encodeURIComponent(params[name] ?? `no ${name}`)
  )
  const search = new URLSearchParams(query).toString()
  return search === "" ? filled : `${filled}?${search}`
}
