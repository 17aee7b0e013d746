self:
{
  config,
  lib,
  pkgs,
  ...
}:
let
  inherit (lib)
    getExe
    getExe'
    mkEnableOption
    mkIf
    mkOption
    optional
    types
    ;
  cfg = config.services.countersign;

  # Secrets at rest need a key that outlives every restart. Where none is given, one is made once, in the state directory.
  start = pkgs.writeShellScript "countersign-start" ''
    set -euo pipefail
    if [ -z "''${COUNTERSIGN_MASTER_KEY:-}" ]; then
      file="$STATE_DIRECTORY/master-key"
      if [ ! -s "$file" ]; then
        umask 077
        ${getExe' pkgs.openssl "openssl"} rand -base64 32 > "$file.new"
        mv "$file.new" "$file"
      fi
      COUNTERSIGN_MASTER_KEY="$(cat "$file")"
      export COUNTERSIGN_MASTER_KEY
    fi
    exec ${getExe cfg.package} serve
  '';
in
{
  options.services.countersign = {
    enable = mkEnableOption "Countersign";

    package = mkOption {
      type = types.package;
      default = self.packages.${pkgs.stdenv.hostPlatform.system}.default;
      defaultText = lib.literalMD "the package of this flake";
      description = "The package to run.";
    };

    settings = mkOption {
      type = types.attrsOf (
        types.oneOf [
          types.str
          types.int
          types.bool
        ]
      );
      default = { };
      example = {
        PORT = 8080;
        COUNTERSIGN_PUBLIC_URL = "https://countersign.example.com";
      };
      description = ''
        Environment variables of the service; `countersign config` lists them with their meanings. They can be read by
        everybody on the machine: secrets belong into `environmentFile`.
      '';
    };

    environmentFile = mkOption {
      type = types.nullOr types.path;
      default = null;
      description = ''
        A file of `NAME=value` lines with the secret settings, such as `COUNTERSIGN_MASTER_KEY` (`openssl rand -base64 32`)
        and `COUNTERSIGN_ADMIN_KEY` (`countersign keys generate`).
        Without a master key in it, one is made in the state directory: it belongs into the backup.
      '';
    };

    database.createLocally = mkOption {
      type = types.bool;
      default = true;
      description = ''
        Whether to run PostgreSQL on this machine for the service, which then reaches it by its socket without a
        password. Otherwise `DATABASE_URL` belongs into `environmentFile`.
      '';
    };
  };

  config = mkIf cfg.enable {
    services.postgresql = mkIf cfg.database.createLocally {
      enable = true;
      ensureDatabases = [ "countersign" ];
      ensureUsers = [
        {
          name = "countersign";
          ensureDBOwnership = true;
        }
      ];
    };

    services.countersign.settings = mkIf cfg.database.createLocally {
      DATABASE_URL = lib.mkDefault "postgresql:///countersign?host=/run/postgresql&user=countersign&sslmode=disable";
    };

    systemd.services.countersign = {
      description = "Countersign";
      documentation = [ "file:${cfg.package}/lib/countersign" ];
      wantedBy = [ "multi-user.target" ];
      wants = [ "network-online.target" ];
      after = [ "network-online.target" ] ++ optional cfg.database.createLocally "postgresql.target";
      requires = optional cfg.database.createLocally "postgresql.target";
      # The service exits while its database is down; by default a unit that fails 5 times in 10 seconds stays failed.
      startLimitIntervalSec = 0;

      environment = {
        NODE_ENV = "production";
      }
      // lib.mapAttrs (
        _: value: if lib.isBool value then lib.boolToString value else toString value
      ) cfg.settings;

      serviceConfig = {
        ExecStart = start;
        EnvironmentFile = optional (cfg.environmentFile != null) cfg.environmentFile;
        DynamicUser = true;
        User = "countersign";
        StateDirectory = "countersign";
        StateDirectoryMode = "0700";
        WorkingDirectory = "%S/countersign";
        Restart = "always";
        RestartSec = 5;
        # The service drains for COUNTERSIGN_STOP_SECONDS, 8 by default.
        TimeoutStopSec = 20;
        # Only the service is told to stop; what it started it stops itself.
        KillMode = "mixed";

        AmbientCapabilities = "";
        CapabilityBoundingSet = "";
        DevicePolicy = "closed";
        LockPersonality = true;
        NoNewPrivileges = true;
        PrivateDevices = true;
        PrivateMounts = true;
        PrivateTmp = true;
        PrivateUsers = true;
        ProcSubset = "pid";
        ProtectClock = true;
        ProtectControlGroups = true;
        ProtectHome = true;
        ProtectHostname = true;
        ProtectKernelLogs = true;
        ProtectKernelModules = true;
        ProtectKernelTunables = true;
        ProtectProc = "invisible";
        ProtectSystem = "strict";
        RemoveIPC = true;
        RestrictAddressFamilies = [
          "AF_INET"
          "AF_INET6"
          "AF_UNIX"
        ];
        RestrictNamespaces = true;
        RestrictRealtime = true;
        RestrictSUIDSGID = true;
        SystemCallArchitectures = "native";
        SystemCallFilter = [
          "@system-service"
          "~@privileged @resources"
        ];
        SystemCallErrorNumber = "EPERM";
        UMask = "0077";
        # MemoryDenyWriteExecute stays off: V8 compiles to memory that it then runs.
      };
    };
  };
}
