#!/bin/sh
exec test/t-weightfiles
