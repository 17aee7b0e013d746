/**
 * Authorization as types. `Authentication` turns a bearer key into a principal. An operation declares the scope it requires with
 * `.middleware(requires("approvals.decide"))`. Only that middleware provides `Authorized<"approvals.decide">`, which the service behind it
 * requires, so an operation without the right scope does not compile.
 */
import { Context } from "effect"
import { HttpApiMiddleware, HttpApiSecurity, OpenApi } from "effect/http-api"
import type { Principal } from "../domain/identity/Principal.ts"
import { type Scope, scopes } from "../domain/identity/Scope.ts"
import { AddressNotAllowed, InsufficientScope, InvalidApiKey, RateLimited } from "./Problems.ts"

/** The principal of the current request. */
export class CurrentPrincipal extends Context.Service<CurrentPrincipal, Principal>()(
  "countersign/api/CurrentPrincipal"
) {}

// In lower case, as registered: documentation pages compare it exactly. Requests may spell it in any case.
const bearer = HttpApiSecurity.annotate(
  HttpApiSecurity.http({ scheme: "bearer" }),
  OpenApi.Description,
  "An API key as a bearer token: `Authorization: Bearer csk_…`. Each operation names the scope that the key needs."
)

/** `Authorization: Bearer <API key>`. A client supplies the key with `HttpApiMiddleware.layerClient`. */
export class Authentication extends HttpApiMiddleware.Service<
  Authentication,
  { provides: CurrentPrincipal; requires: never }
>()("countersign/api/Authentication", {
  requiredForClient: true,
  security: { api_key: bearer },
  error: [InvalidApiKey, AddressNotAllowed, RateLimited]
}) {}

/** Proof that the principal of the current request has scope `S`. */
export interface Authorized<S extends Scope> {
  readonly "~countersign/api/Authorized": S
}

/**
 * The principal, proven to have the scope. Services require it; only `requires` provides it. The proof exists in types
 * alone: at run time it is `CurrentPrincipal`, so a scope check adds nothing to the request's context.
 */
export const Authorized = <const S extends Scope>(_scope: S): Context.Service<Authorized<S>, Principal> =>
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the same value under the narrower type, which only `requires` provides
  CurrentPrincipal as unknown as Context.Service<Authorized<S>, Principal>

/** The type-level identity of a scope's middleware. */
export interface ScopeCheckId<S extends Scope> {
  readonly "~effect/http-api/HttpApiMiddleware": {
    readonly provides: Authorized<S>
    readonly requires: CurrentPrincipal
    readonly error: typeof InsufficientScope
    readonly clientError: never
    readonly requiredForClient: false
  }
}

/** The middleware of a scope. Written out, because declarations cannot name a class that is local to a function. */
export type ScopeCheck<S extends Scope> = HttpApiMiddleware.ServiceClass<
  ScopeCheckId<S>,
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

const makeMiddleware = <const S extends Scope>(name: S): ScopeCheck<S> =>
  HttpApiMiddleware.Service<ScopeCheckId<S>, { provides: Authorized<S>; requires: CurrentPrincipal }>()(
    `countersign/api/requires/${name}`,
    { error: InsufficientScope }
  )

/** One middleware per scope, shared by all operations that require it. */
const middlewares = new Map<Scope, unknown>(scopes.map((scope) => [scope, makeMiddleware(scope)]))

/** The middleware that rejects keys without `scope` with 403 `INSUFFICIENT_SCOPE`. */
export const requires = <const S extends Scope>(scope: S): ScopeCheck<S> =>
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the map has an entry per scope
  middlewares.get(scope) as ScopeCheck<S>

/** Proof that the principal has one of two scopes, for operations that either allows. */
export const AuthorizedEither = <const A extends Scope, const B extends Scope>(
  _first: A,
  _second: B
): Context.Service<Authorized<A | B>, Principal> =>
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the same value under the narrower type, which only `requires` provides
  CurrentPrincipal as unknown as Context.Service<Authorized<A | B>, Principal>

/** The middleware that rejects keys with neither scope. The problem names the first as `required_scope`. */
export const requiresEither = <const A extends Scope, const B extends Scope>(
  first: A,
  second: B
): ScopeCheck<A | B> => {
  const name = `${first}${OR}${second}`
  const known = eitherMiddlewares.get(name)
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a middleware of two scopes is named by both
  const either = (known ?? makeMiddleware(name as Scope)) as ScopeCheck<A | B>
  eitherMiddlewares.set(name, either)
  return either
}

/** One middleware per pair of scopes. */
const eitherMiddlewares = new Map<string, unknown>()

/** The scopes that a middleware requires, by its key: none if it is not a scope check, two if either suffices. */
export const scopesOf = (key: string): ReadonlyArray<Scope> => {
  const names = key.startsWith(KEY_PREFIX) ? key.slice(KEY_PREFIX.length).split(OR) : []
  return scopes.filter((known) => names.includes(known))
}

const KEY_PREFIX = "countersign/api/requires/"
const OR = " or "
