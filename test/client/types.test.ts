/**
 * The types of the promise client, which are generated, against the contract. The type checker is the test: a wrong type does not compile.
 */
import { assert, describe, it } from "@effect/vitest"
import type { Brand, Cause, DateTime, Redacted, Schema, Stream } from "effect"
import type { HttpApi, HttpApiEndpoint } from "effect/http-api"
import type { Api } from "../../src/api/Api.ts"
import type * as approvalProblems from "../../src/api/ApprovalProblems.ts"
import type * as problems from "../../src/api/Problems.ts"
import type { CallInput, CallResult } from "../../src/client/Call.ts"
import {
  type Approval,
  type Comparison,
  type CountersignClient,
  isProblem,
  type Operations,
  type Problem,
  type ServiceProblem
} from "../../src/client/index.ts"

/** Whether two types accept each other's values. */
type Same<A, B> = [A] extends [B]
  ? [B] extends [A]
    ? true
    : { readonly is: A; readonly expected: B }
  : { readonly is: A; readonly expected: B }

/** `true` if every member is `true`, else the other members. */
type All<A> = [A] extends [true] ? true : Exclude<A, true>

/** Whether a type is that of any JSON object. */
type IsJsonObject<A> = string extends keyof A ? (Schema.Json extends A[keyof A] ? true : false) : false

/** A value of the contract as the promise client returns it: ids are strings, times `Date`, any JSON is unknown. */
type Plain<A> = Schema.Json extends A
  ? unknown
  : A extends string
    ? A extends Brand.Brand<string>
      ? string
      : A
    : A extends DateTime.DateTime
      ? Date
      : A extends Stream.Stream<infer Item, unknown, unknown>
        ? AsyncIterable<Plain<Item>>
        : IsJsonObject<A> extends true
          ? object
          : { readonly [K in keyof A]: Plain<A[K]> }

/**
 * A value of the contract as it may be given to the promise client: times also as text, and optional members also as
 * undefined.
 */
type Given<A> = Schema.Json extends A
  ? unknown
  : A extends void
    ? undefined
    : A extends string
      ? A extends Brand.Brand<string>
        ? string
        : A
      : A extends DateTime.DateTime
        ? Date | string
        : A extends Redacted.Redacted
          ? string
          : IsJsonObject<A> extends true
            ? object
            : A extends ReadonlyArray<unknown>
              ? { readonly [K in keyof A]: Given<A[K]> }
              : A extends object
                ? {
                    readonly [K in keyof A]: string extends K
                      ? Given<A[K]>
                      : {} extends Pick<A, K>
                        ? Given<A[K]> | undefined
                        : Given<A[K]>
                  }
                : A

/** An operation without parts takes an empty input. */
type GivenInput<A> = unknown extends A ? {} : Given<A>

type Groups = typeof Api extends HttpApi.HttpApi<infer _Id, infer G> ? G : never
type Endpoints<Id> = Extract<Groups, { readonly identifier: Id }>["endpoints"]
type Endpoint<Id, Name> = Name extends keyof Endpoints<Id>
  ? Extract<Endpoints<Id>[Name], HttpApiEndpoint.ConstraintRequest>
  : never

/** For each operation, compares the input and output of its method with the contract; `true` for each that agrees. */
type Agreement = {
  readonly [Id in keyof Operations]: {
    readonly [Name in keyof Operations[Id]]: Operations[Id][Name] extends (
      input: infer Input,
      ...rest: infer _Rest
    ) => Promise<infer Result>
      ? readonly [
          Same<
            Result,
            CallResult<Endpoint<Id, Name>> extends void ? void : Plain<CallResult<Endpoint<Id, Name>>>
          >,
          // Beside the object, an ID where nothing else is needed.
          Same<Exclude<NonNullable<Input>, string>, GivenInput<CallInput<Endpoint<Id, Name>>>>
        ]
      : never
  }
}

type Leaves<A> = A extends readonly [infer One, infer Other]
  ? One | Other
  : { readonly [K in keyof A]: Leaves<A[K]> }[keyof A]

/** `sessions.stream` is `countersign.stream`. */
type Called<Id> = Exclude<keyof Endpoints<Id>, "stream">

type ProblemClasses = typeof problems & typeof approvalProblems
type Contract = InstanceType<ProblemClasses[keyof ProblemClasses]>
/** The members that a problem has besides the members of `Error`, of every problem, and of Effect's errors. */
type Own<P> = Omit<
  P,
  | keyof Error
  | keyof Cause.YieldableError
  | Exclude<keyof ServiceProblem, "code" | "status">
  | "instance"
  | "_tag"
  | `~${string}`
>

describe("the types of the promise client", () => {
  it("are those of the contract, for every operation", () => {
    const agreement: All<Leaves<Agreement>> = true
    const groups: Same<keyof Operations, Groups["identifier"]> = true
    const names: Same<
      { [Id in keyof Operations]: keyof Operations[Id] },
      { [Id in Groups["identifier"]]: Called<Id> }
    > = true
    assert.deepStrictEqual([agreement, groups, names], [true, true, true])
  })

  it("name every problem of the contract with its members", () => {
    type Service = Extract<Problem, ServiceProblem>
    const codes: Same<Service["code"], Contract["code"]> = true
    const members: All<
      {
        [C in Service["code"]]: Same<
          Own<Extract<Service, { readonly code: C }>>,
          Plain<Own<Extract<Contract, { readonly code: C }>>>
        >
      }[Service["code"]]
    > = true
    assert.isTrue(codes && members)
  })

  it("accept interfaces and records where any JSON is allowed, and results can be cast to them", () => {
    interface RefundArguments {
      readonly order: string
      readonly amount_cents?: number
    }
    const use = async (
      client: CountersignClient,
      given: Record<string, unknown>,
      refund: RefundArguments
    ) => {
      const step = { step_id: "1", tool: "refund", action_class: "write" }
      await client.govern("", { ...step, arguments: given })
      await client.govern("", { ...step, arguments: refund })
      await client.tasks.run({ params: { id: "" }, payload: { input: refund, metadata: given } })
      const payload = { input: given, answer: refund, metadata: refund }
      const { answer } = await client.tasks.run({ params: { id: "" }, payload })
      await client.feedback.create({
        payload: { inference_log_id: "", score: 1, correction: refund }
      })
      const { arguments: read } = await client.approvals.get({ params: { id: "" } })
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- callers do so, and it must compile
      return [answer as RefundArguments, read as RefundArguments, read as Record<string, unknown>]
    }
    assert.isFunction(use)
  })

  it("narrow a problem to its members by its code", () => {
    const use = (error: unknown): Approval | number | string | undefined => {
      if (isProblem(error, "APPROVAL_EXPIRED", "APPROVAL_ALREADY_DECIDED")) return error.approval
      if (isProblem(error, "RATE_LIMITED")) return error.retry_after_seconds
      if (isProblem(error, "SERVICE_UNREACHABLE")) return error.reason
      if (isProblem(error)) {
        // @ts-expect-error -- a problem of an unknown kind has no approval
        assert.isUndefined(error.approval)
        return error.code
      }
      return undefined
    }
    // @ts-expect-error -- there is no such problem
    isProblem(undefined, "NOT_A_PROBLEM")
    assert.isUndefined(use(undefined))
    const summaryOf = (comparison: Comparison) => comparison.summary
    assert.isFunction(summaryOf)
  })
})
