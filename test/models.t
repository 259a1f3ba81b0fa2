#!/bin/sh
exec test/t-models
