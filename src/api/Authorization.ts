/**
 * Who may do what, as types. `Authentication` turns a bearer key into a principal. An operation names the scope it asks
 * for by `.middleware(requires("approvals.decide"))`; that, and nothing else, provides `Authorized<"approvals.decide">`,
 * which the service behind it yields to learn for whom it works. An operation without the right scope does not compile.
 */
import { Context } from "effect"
import { HttpApiMiddleware, HttpApiSecurity } from "effect/http-api"
import type { Principal } from "../domain/identity/Principal.ts"
import { type Scope, scopes } from "../domain/identity/Scope.ts"
import { InsufficientScope, InvalidApiKey, RateLimited } from "./Problems.ts"

/** The principal of the request that is being answered. */
export class CurrentPrincipal extends Context.Service<CurrentPrincipal, Principal>()(
  "countersign/api/CurrentPrincipal"
) {}

/** `Authorization: Bearer <API_KEY>`. In a client the key is given by `HttpApiMiddleware.layerClient`. */
export class Authentication extends HttpApiMiddleware.Service<
  Authentication,
  { provides: CurrentPrincipal; requires: never }
>()("countersign/api/Authentication", {
  requiredForClient: true,
  security: { api_key: HttpApiSecurity.bearer },
  error: [InvalidApiKey, RateLimited]
}) {}

/** Proof that the principal of this request holds a scope. */
export interface Authorized<S extends Scope> {
  readonly "~countersign/api/Authorized": S
}

/**
 * The principal, known to hold the scope. Services yield this; only `requires` provides it. The proof is one of types alone: at run
 * time it is the principal itself, so that a gate adds nothing to what a request carries.
 */
export const Authorized = <const S extends Scope>(_scope: S): Context.Service<Authorized<S>, Principal> =>
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the same value under the narrower type, which only a gate satisfies
  CurrentPrincipal as unknown as Context.Service<Authorized<S>, Principal>

/** A gate in the requirements of an operation: what it provides, and what it needs to do so. */
export interface GateId<S extends Scope> {
  readonly "~effect/http-api/HttpApiMiddleware": {
    readonly provides: Authorized<S>
    readonly requires: CurrentPrincipal
    readonly error: typeof InsufficientScope
    readonly clientError: never
    readonly requiredForClient: false
  }
}

/** The middleware of a scope. Its type is spelt out, since the declarations of a package cannot name a class that is local to a function. */
export type Gate<S extends Scope> = HttpApiMiddleware.ServiceClass<
  GateId<S>,
  `countersign/api/requires/${S}`,
  {
    requires: CurrentPrincipal
    provides: Authorized<S>
    error: typeof InsufficientScope
    clientError: never
    requiredForClient: false
    security: never
  }
>

const gate = <const S extends Scope>(name: S): Gate<S> =>
  HttpApiMiddleware.Service<GateId<S>, { provides: Authorized<S>; requires: CurrentPrincipal }>()(
    `countersign/api/requires/${name}`,
    { error: InsufficientScope }
  )

/** One gate a scope, so that every operation that asks for it carries the same middleware. */
const gates = new Map<Scope, unknown>(scopes.map((scope) => [scope, gate(scope)]))

/** The middleware that lets only holders of `scope` through: 403 `INSUFFICIENT_SCOPE` for others. */
export const requires = <const S extends Scope>(scope: S): Gate<S> =>
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the map holds under each scope the gate of that scope
  gates.get(scope) as Gate<S>

/** Proof of one of two scopes, for what either lets its holder see. */
export const AuthorizedEither = <const A extends Scope, const B extends Scope>(
  _first: A,
  _second: B
): Context.Service<Authorized<A | B>, Principal> =>
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the same value under the narrower type, which only a gate satisfies
  CurrentPrincipal as unknown as Context.Service<Authorized<A | B>, Principal>

/** The middleware that lets holders of one of two scopes through. The first is the one that others are told they lack. */
export const requiresEither = <const A extends Scope, const B extends Scope>(
  first: A,
  second: B
): Gate<A | B> => {
  const name = `${first}${OR}${second}`
  const known = eitherGates.get(name)
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a gate of two scopes is named by both
  const either = (known ?? gate(name as Scope)) as Gate<A | B>
  eitherGates.set(name, either)
  return either
}

/** One gate a pair, as `gates` has one a scope. */
const eitherGates = new Map<string, unknown>()

/** The scopes of which a middleware key is the gate: none where it is no gate, two where either will do. */
export const scopesOf = (key: string): ReadonlyArray<Scope> => {
  const names = key.startsWith(GATE) ? key.slice(GATE.length).split(OR) : []
  return scopes.filter((known) => names.includes(known))
}

const GATE = "countersign/api/requires/"
const OR = " or "
