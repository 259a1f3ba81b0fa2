#!/bin/sh
exec test/golden ../shared/golden
