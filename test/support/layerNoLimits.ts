import { Effect, Layer } from "effect"
import { OrganizationLimits } from "../../src/server/admission/OrganizationLimits.ts"
import { defaultUnsentLimits, UnsentResponses } from "../../src/server/admission/UnsentResponses.ts"
import { VerifiedCredentials } from "../../src/server/admission/VerifiedCredentials.ts"
import { WorkLimits } from "../../src/server/admission/WorkLimits.ts"
import { Stopping } from "../../src/server/http/Stopping.ts"
import { AuthenticationRefusals } from "../../src/server/identity/AuthenticationRefusals.ts"
import { VerificationLinks } from "../../src/server/identity/VerificationLinks.ts"
import { VerificationPolicy } from "../../src/server/identity/VerificationPolicy.ts"
import { LimitUse } from "../../src/server/observability/LimitUse.ts"
import { ExampleCompared } from "../../src/server/tasks/Comparisons/ExampleCalls.ts"

/** What a test of one service needs besides it: no limits of organizations, nothing to verify, the default limits of a server. */
export const layerNoLimits = Layer.mergeAll(
  OrganizationLimits.layerNone,
  LimitUse.layerNone,
  AuthenticationRefusals.layerNone,
  VerificationLinks.layerNone,
  VerificationPolicy.layerNone,
  Layer.succeed(WorkLimits, { reads: 4, largeBodyBytes: 32 * 2 ** 20 }),
  UnsentResponses.layer(defaultUnsentLimits),
  VerifiedCredentials.layer,
  Stopping.layer,
  Layer.succeed(ExampleCompared, () => Effect.void)
)
