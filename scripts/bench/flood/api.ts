/** Calls of the API by the benchmark itself. */
import type { Service } from "../service.ts"

/** A key of an organization. */
export interface Tenant {
  readonly port: number
  readonly key: string
}

export const tenantOf = ({ key, port }: Service): Tenant => ({ port, key })

/** Sends a request and returns its status. Its response is read whole. */
export const send = async ({ key, port }: Tenant, method: string, path: string, body?: string) => {
  const response = await fetch(`http://127.0.0.1:${port}${path}`, {
    method,
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    ...(body === undefined ? {} : { body })
  })
  return { status: response.status, text: await response.text() }
}

/** Sends a request that must succeed, and returns a member of its response. */
export const create = async (
  tenant: Tenant,
  method: string,
  path: string,
  body: object,
  member: string
): Promise<string> => {
  const { status, text } = await send(tenant, method, path, JSON.stringify(body))
  if (status >= 300) throw new Error(`${method} ${path}: ${status} ${text.slice(0, 500)}`)
  return memberOf(text, member)
}

/** A member of a JSON object, as text; `a.b` is a member of a member. */
export const memberOf = (text: string, member: string): string => {
  let value: unknown = JSON.parse(text)
  for (const name of member.split(".")) {
    value = typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined
  }
  return String(value)
}
