# Evaluates the flake with the few functions of nixpkgs that it uses, in place of nixpkgs, which a test cannot download. It finds
# names that do not exist, types that do not fit and values that the test compares; it builds nothing. With `nixpkgsLib`, the directory
# `lib` of nixpkgs, it uses that, and evaluates the module by its module system; only packages stay replaced.
{
  root,
  nixpkgsLib ? null,
}:
let
  hasLib = nixpkgsLib != null;
  lib = if hasLib then import nixpkgsLib else replacement;
  replacement = rec {
    inherit (builtins) filter isBool mapAttrs;
    genAttrs =
      names: f:
      builtins.listToAttrs (
        map (name: {
          inherit name;
          value = f name;
        }) names
      );
    filterAttrs =
      keep: set:
      builtins.removeAttrs set (filter (name: !keep name set.${name}) (builtins.attrNames set));
    importJSON = path: builtins.fromJSON (builtins.readFile path);
    last = list: builtins.elemAt list (builtins.length list - 1);
    splitString = separator: text: filter builtins.isString (builtins.split separator text);
    boolToString = value: if value then "true" else "false";
    optional = condition: value: if condition then [ value ] else [ ];
    optionalAttrs = condition: set: if condition then set else { };
    getExe = package: "${package.outPath}/bin/${package.meta.mainProgram}";
    getExe' = package: name: "${package.outPath}/bin/${name}";
    licenses.mit = "MIT";
    platforms = {
      linux = [
        "x86_64-linux"
        "aarch64-linux"
      ];
      darwin = [ "aarch64-darwin" ];
    };
    # Of modules.
    mkIf = optionalAttrs;
    mkDefault = value: value;
    mkEnableOption = description: { inherit description; };
    mkOption = option: option;
    literalMD = text: text;
    types = {
      package = "package";
      path = "path";
      str = "str";
      int = "int";
      bool = "bool";
      attrsOf = type: "attrsOf ${type}";
      oneOf = types: "oneOf ${toString types}";
      nullOr = type: "nullOr ${type}";
    };
  };

  package = name: meta: {
    inherit name meta;
    type = "derivation";
    outPath = "/nix/store/${name}";
  };

  pkgsOf =
    system:
    let
      pkgs = {
        inherit lib;
        stdenv.hostPlatform = {
          inherit system;
          isLinux = builtins.match ".*-linux" system != null;
        };
        nodejs_24 = package "nodejs" { mainProgram = "node"; };
        postgresql_18 = package "postgresql" { };
        openssl = package "openssl" { };
        nixfmt-rfc-style = package "nixfmt" { };
        makeWrapper = package "wrapper" { };
        mkShell = shell: shell;
        writeShellScript = name: text: package name { } // { inherit text; };
        testers.runNixOSTest = test: test;
        buildNpmPackage = arguments: package arguments.pname arguments.meta // arguments;
        importNpmLock = {
          __functor = _: arguments: arguments;
          npmConfigHook = package "hook" { };
        };
        # As nixpkgs' own: a parameter of the function that nothing has is an error.
        callPackage =
          path: arguments:
          let
            f = import path;
            wanted = builtins.functionArgs f;
          in
          f (builtins.intersectAttrs wanted pkgs // arguments);
      };
    in
    pkgs;

  flake = import (root + "/flake.nix");
  outputs = flake.outputs {
    self = outputs // {
      outPath = toString root;
    };
    nixpkgs = {
      inherit lib;
      legacyPackages = lib.genAttrs [ "x86_64-linux" "aarch64-linux" "aarch64-darwin" ] pkgsOf;
    };
  };

  arguments = {
    inherit lib;
    pkgs = pkgsOf "x86_64-linux";
  };
  # By the module system of nixpkgs, beside options that take anything in place of NixOS's own.
  evaluateByLib =
    services:
    lib.evalModules {
      modules = [
        outputs.nixosModules.default
        {
          options.systemd.services = anything;
          options.services.postgresql = anything;
          config._module.args.pkgs = arguments.pkgs;
          config.services.countersign = services;
        }
      ];
    };
  anything = lib.mkOption {
    type = lib.types.attrsOf lib.types.anything;
    default = { };
  };
  evaluateModule =
    services:
    if hasLib then
      (evaluateByLib services).config
    else
      (outputs.nixosModules.default (
        arguments
        // {
          config.services.countersign = services // {
            package = outputs.packages.x86_64-linux.default;
          };
        }
      )).config;
  service = {
    enable = true;
    settings = { };
    environmentFile = null;
    database.createLocally = true;
  };
  withDatabase = evaluateModule service;
  without = evaluateModule (
    service
    // {
      environmentFile = "/etc/countersign.env";
      database.createLocally = false;
      settings = {
        PORT = 9000;
        COUNTERSIGN_LOG_REQUESTS = true;
      };
    }
  );
  summary =
    services:
    let
      evaluated = (evaluateByLib services).config;
    in
    [
      evaluated.services.countersign.settings
      evaluated.systemd.services.countersign.serviceConfig.EnvironmentFile
      evaluated.services.countersign.package.outPath
    ];
  own = outputs.packages.x86_64-linux.default;
in
{
  systems = builtins.mapAttrs (_: packages: packages.default.name) outputs.packages;
  program = outputs.apps.x86_64-linux.default.program;
  shell = map (one: one.name) outputs.devShells.aarch64-darwin.default.packages;
  checks = builtins.mapAttrs (_: builtins.attrNames) outputs.checks;
  formatter = outputs.formatter.x86_64-linux.name;
  package = {
    inherit (own) version installPhase;
    nodejs = own.nodejs.name;
    packages = own.npmDeps.packageLock.packages;
  };
  module = {
    options = builtins.filter (name: name != "_module") (
      builtins.attrNames
        (
          if hasLib then
            (evaluateByLib service).options
          else
            (outputs.nixosModules.default (arguments // { config = { }; })).options
        ).services.countersign
    );
    databases = withDatabase.services.postgresql.ensureDatabases;
    defaults = withDatabase.services.countersign.settings;
    start = withDatabase.systemd.services.countersign.serviceConfig.ExecStart.text;
    requires = withDatabase.systemd.services.countersign.requires;
    environment = without.systemd.services.countersign.environment;
    environmentFile = without.systemd.services.countersign.serviceConfig.EnvironmentFile;
    stopsAfter = without.systemd.services.countersign.serviceConfig.TimeoutStopSec;
    withoutDatabase = without.services.postgresql;
    # What the module's types refuse; the replacements of nixpkgs have no types.
    refused =
      if hasLib then
        map (services: !(builtins.tryEval (builtins.deepSeq (summary (service // services)) true)).success) [
          { settings.PORT = [ 9000 ]; }
          { environmentFile = "secrets.env"; }
          { databse.createLocally = false; }
          { package = "countersign"; }
        ]
      else
        null;
  };
}
